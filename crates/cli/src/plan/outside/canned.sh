#!/bin/sh
# Answers as the name of the problem asks for: what the tests of programs run.
read -r problem
name=${problem#*\"name\":\"}
one='"placement":{"a":["x"],"b":["x"]}'
two='"placement":{"a":["x"],"b":["y"]}'
case ${name%%\"*} in
optimal) echo "{\"status\":\"optimal\",$one,\"objective\":{\"nodes\":1},\"steps\":9}" ;;
feasible) echo "{\"status\":\"feasible\",$two}" ;;
bounded) echo "{\"status\":\"feasible\",$two,\"bound\":{\"nodes\":1}}" ;;
unknown) echo '{"status":"unknown"}' ;;
infeasible) echo '{"status":"infeasible"}' ;;
not-optimal) echo "{\"status\":\"optimal\",$two}" ;;
bound-too-high) echo "{\"status\":\"feasible\",$two,\"bound\":{\"nodes\":2}}" ;;
other-terms) echo "{\"status\":\"feasible\",$two,\"bound\":{\"price\":2}}" ;;
wrong-value) echo "{\"status\":\"feasible\",$two,\"objective\":{\"nodes\":1}}" ;;
half-a-plan) echo '{"status":"feasible","placement":{"a":["z"]}}' ;;
no-plan) echo '{"status":"optimal"}' ;;
two-lines) printf '{"status":"unknown"}\n{"status":"unknown"}\n' ;;
silent) ;;
garbage) echo 'x on y' ;;
unknown-key) echo '{"status":"unknown","plan":{}}' ;;
failing) echo 'loading' >&2 && echo 'no license' >&2 && exit 7 ;;
endless) exec yes ;;
hanging) sleep 600 ;;
plain) case $problem in *GiB* | *where*) echo quantities ;; *) echo '{"status":"unknown"}' ;; esac ;;
esac
