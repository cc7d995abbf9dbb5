# How each SLA stands by `tenure report sla`: how long it was missed, of how much that it may be.
def short: if . then sub("\\.[0-9]+s"; "s") else "nothing" end;
[.[] | "\(.service) \(.state) (missed \(.missed | short) of \(.budget | short))"] | join(", ")
