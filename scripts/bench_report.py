"""How scripts/bench shows what it measured."""
import datetime
import os
import platform

from bench_groups import percentile


def figures(results):
    """{"group.figure": number}: medians of times in microseconds, and what a group counted."""
    flat = {}
    for group, result in results.items():
        for row, parts in result.get("times", {}).items():
            flat[f"{group}.{row}"] = percentile(parts["total"], 0.5)
        for name, value in result.get("figures", {}).items():
            flat[f"{group}.{name}"] = value
    return flat


def table(head, rows):
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def time_rows(times):
    rows = []
    for row, parts in times.items():
        for part, values in sorted(parts.items(), key=lambda item: item[0] != "total"):
            name = row if part == "total" else f"&nbsp;&nbsp;{row}: {part}"
            rows.append([name, f"{percentile(values, 0.5) / 1000:.2f}",
                         f"{percentile(values, 0.95) / 1000:.2f}", str(len(values))])
    return rows


def group_lines(result):
    lines = []
    if "times" in result:
        lines += table(["work", "p50 ms", "p95 ms", "samples"], time_rows(result["times"])) + [""]
    if "figures" in result:
        lines += table(["figure", "value"],
                       [[name, f"{value:.2f}"] for name, value in result["figures"].items()]) + [""]
    if "stages" in result:
        lines += ["Where a create without a pool spends its time (shim and init work side by side, "
                  "so the stages overlap):", ""]
        lines += table(["stage", "µs"], [[s["name"], str(s["us"])] for s in result["stages"]]) + [""]
    return lines


def promise_rows(rows):
    shown = []
    for promise, value, verdict in rows:
        limit = (f"at most {promise['at_most']}" if "at_most" in promise
                 else f"at least {promise['at_least']}")
        shown.append([promise["what"], limit, f"{value:.2f}", verdict])
    return shown


def print_results(results):
    for group, result in results.items():
        print(f"\n{group}")
        for line in group_lines(result):
            print("  " + line.replace("&nbsp;", " "))


def print_promises(rows):
    print("promises")
    for what, limit, value, verdict in promise_rows(rows):
        print(f"  {verdict.upper():7} {value:>8} ({limit}) {what}")


def print_layer(name, result):
    for work in ("launch", "exec"):
        with_it, without = result[f"with.{work}"], result[f"without.{work}"]
        print(f"{work:8} with {name} {with_it:8.0f} µs   without {without:8.0f} µs   "
              f"it costs {with_it - without:+.0f} µs ({with_it / without - 1:+.1%})")


def write(path, results, rows):
    lines = ["# Performance", "",
             "Written by `scripts/bench`; `docs/promises.toml` holds what is promised. All isolation "
             "is on, the network is none, and the client is resident and speaks to the real "
             "socket, except in the rows `cli`. Rows of one table were measured in turn.", "",
             f"{datetime.date.today()}, Linux {platform.release()}, {os.cpu_count()} cores.", "",
             "## Promises", ""]
    lines += table(["promise", "limit", "measured", ""], promise_rows(rows)) + [""]
    missed = [(p, v) for p, v, verdict in rows if verdict != "kept" and "why" in p]
    for promise, value in missed:
        lines += [f"**Missed: {promise['what']}** ({value:.2f}). {promise['why']}", ""]
    for group, result in results.items():
        lines += [f"## {group}", ""] + group_lines(result)
    path.write_text("\n".join(lines).rstrip() + "\n")
