/* Counts the edges of the program's instrumented code that were taken, and writes so into the file that TENURE_EDGES
 * names when the program ends. Linked in by `scripts/soak fuzz`; LLVM's SanitizerCoverage calls the first function once
 * for each part of the code, before `main`. */

#include <stdio.h>
#include <stdlib.h>

struct edges {
    const unsigned char *first, *last;
    struct edges *next;
};

static struct edges *all;

void __sanitizer_cov_bool_flag_init(const unsigned char *first, const unsigned char *last)
{
    struct edges *some;

    for (some = all; some; some = some->next)
        if (some->first == first)
            return;
    some = malloc(sizeof *some);
    if (!some || first == last)
        return;
    *some = (struct edges){first, last, all};
    all = some;
}

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("TENURE_EDGES");
    FILE *file = path ? fopen(path, "w") : NULL;
    unsigned long taken = 0, count = 0;

    if (!file)
        return;
    for (const struct edges *some = all; some; some = some->next)
        for (const unsigned char *edge = some->first; edge < some->last; edge++) {
            taken += *edge != 0;
            count++;
        }
    fprintf(file, "%lu of %lu edges taken (%.1f %%)\n", taken, count, count ? 100.0 * taken / count : 0.0);
    fclose(file);
}
