#!/usr/bin/env python3
"""Reads an exported file as strictly as its readers do: consumer.py FORMAT FILE... ; exit code 1 and a line if they would not take it."""
import csv
import json
import re
import sys
import xml.etree.ElementTree as ElementTree


def strict_json(text):
    def no_twins(pairs):
        keys = [key for key, _ in pairs]
        assert len(keys) == len(set(keys)), f"a key twice: {sorted(k for k in keys if keys.count(k) > 1)}"
        return dict(pairs)

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, object_pairs_hook=no_twins, parse_constant=refuse)


def check_json(path):
    everything = strict_json(open(path, encoding="utf-8").read())
    assert isinstance(everything["exit_code"], int)
    for record in everything["records"]:
        assert record["verdict"]["status"] in ("pass", "fail", "inconclusive", "skipped", "error")


def check_junit(path):
    root = ElementTree.parse(path).getroot()
    assert root.tag == "testsuites", root.tag
    names = {"tests": None, "failures": "failure", "errors": "error", "skipped": "skipped"}

    def count(element, what):
        cases = element.findall(".//testcase")
        return len(cases) if what is None else sum(case.find(what) is not None for case in cases)

    for element in [root] + root.findall("testsuite"):
        for attribute, what in names.items():
            assert int(element.get(attribute)) == count(element, what), (element.tag, attribute)
        assert re.fullmatch(r"\d+\.\d{3}", element.get("time")), element.get("time")
    for suite in root:
        assert suite.tag == "testsuite" and suite.get("name") and suite.get("hostname")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp")), suite.get("timestamp")
        seen = set()
        for case in suite:
            assert case.tag == "testcase" and case.get("classname") and case.get("name")
            key = (case.get("classname"), case.get("name"))
            assert key not in seen, f"two tests of one name: {key}"
            seen.add(key)
            assert re.fullmatch(r"\d+\.\d{3}", case.get("time"))
            outcomes = [child for child in case if child.tag in ("failure", "error", "skipped")]
            assert len(outcomes) <= 1, key
            assert all(child.get("message") for child in outcomes), key
            known = {"properties", "failure", "error", "skipped", "system-out"}
            assert {child.tag for child in case} <= known, key


def check_csv(path):
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, strict=True))
    assert len(rows) > 1
    assert len(set(rows[0])) == len(rows[0]), "a column twice"
    assert all(len(row) == len(rows[0]) for row in rows), "rows of different length"
    for row in rows[1:]:
        named = dict(zip(rows[0], row))
        for column, value in named.items():
            if value and (column.endswith(("_seconds", "_ratio", "_bytes")) or "overhead" in column):
                float(value)
        assert bool(named["overhead_ratio"]) == (named["tax"] == "measured"), named["case_id"]


def check_mllog(path):
    token = ":::MLLOG "
    open_runs = 0
    lines = open(path, encoding="utf-8").read().split("\n")
    assert lines.pop() == "", "the last line is cut"
    for line in lines:
        assert line.startswith(token), line[:40]
        entry = strict_json(line[len(token):])
        assert set(entry) == {"namespace", "time_ms", "event_type", "key", "value", "metadata"}, entry
        assert isinstance(entry["time_ms"], int)
        assert entry["event_type"] in ("POINT_IN_TIME", "INTERVAL_START", "INTERVAL_END")
        assert {"file", "lineno"} <= set(entry["metadata"])
        open_runs += {"run_start": 1, "run_stop": -1}.get(entry["key"], 0)
        assert open_runs in (0, 1), "runs overlap"
        if entry["key"] == "run_stop":
            assert entry["metadata"]["status"] in ("success", "aborted")
    assert open_runs == 0, "a run does not end"


def check_openmetrics(path):
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
    from prometheus_client.parser import text_string_to_metric_families as prometheus

    text = open(path, encoding="utf-8").read()
    both = []
    for parse in (openmetrics, prometheus):
        samples = {}
        for family in parse(text):
            assert family.type == "gauge", (family.name, family.type)
            for sample in family.samples:
                key = (sample.name, tuple(sorted(sample.labels.items())))
                assert key not in samples, f"twice: {key}"
                assert sample.timestamp is None, key
                samples[key] = repr(float(sample.value))
        both.append(samples)
    assert both[0] == both[1], "the two formats read different samples"
    verdicts = {}
    for (name, labels), value in both[0].items():
        if name == "dettax_verdict":
            config = dict(labels)["config_id"]
            verdicts[config] = verdicts.get(config, 0) + float(value)
    assert all(total == 1 for total in verdicts.values()), verdicts


def check_google_benchmark(path):
    result = strict_json(open(path, encoding="utf-8").read())
    assert result["context"]["json_schema_version"] == 1
    seen = set()
    for entry in result["benchmarks"]:
        key = (entry["name"], entry.get("repetition_index"))
        assert key not in seen, f"twice: {key}"
        seen.add(key)
        assert entry["run_type"] in ("iteration", "aggregate")
        failed = entry.get("error_occurred", False)
        assert entry["run_type"] == "aggregate" or (entry["real_time"] == 0) == failed, key
        assert not failed or (entry["error_message"] and "overhead_ratio" not in entry), key


def check_html(path):
    from html.parser import HTMLParser

    text = open(path, encoding="utf-8").read()
    scripts = []

    class Page(HTMLParser):
        open_tags, ids = [], set()

        def handle_starttag(self, tag, attributes):
            named = dict(attributes)
            for key in ("src", "href"):
                assert named.get(key, "#").startswith("#"), f"{tag} loads {named.get(key)}"
            if "id" in named:
                assert named["id"] not in self.ids, f"two elements {named['id']}"
                self.ids.add(named["id"])
            if tag == "script":
                scripts.append("")
            if tag not in ("meta", "br"):
                self.open_tags.append(tag)

        def handle_endtag(self, tag):
            assert self.open_tags and self.open_tags.pop() == tag, f"</{tag}> closes something else"

        def handle_data(self, data):
            if self.open_tags and self.open_tags[-1] == "script":
                scripts[-1] += data

    page = Page()
    page.feed(text)
    page.close()
    assert not page.open_tags, page.open_tags
    assert len(scripts) == 3, f"{len(scripts)} scripts"
    data = strict_json(scripts[0])
    for row in data["forest"]:
        assert (row["value"] is None) or row["low"] <= row["value"] <= row["high"], row
    for case, chart in data["steps"].items():
        for arm in chart["arms"]:
            assert sum(arm["counts"]) + arm["over"] == arm["steps"], case
    for case, causes in data["causes"].items():
        for row in (causes["ablation"] or {"rows": []})["rows"]:
            parts = [*row["cells"], row["recording"]]
            assert len(row["cells"]) == len(causes["ablation"]["mechanisms"]), (case, row)
            assert None in parts or abs(sum(parts) - row["seconds"]) < 1e-9, (case, row)


def main():
    check = globals()["check_" + sys.argv[1].replace("-", "_")]
    for path in sys.argv[2:]:
        try:
            check(path)
        except Exception as error:  # whatever it is, the reader would not take the file
            print(f"{path}: {type(error).__name__}: {str(error)[:500]}")
            sys.exit(1)


if __name__ == "__main__":
    main()
