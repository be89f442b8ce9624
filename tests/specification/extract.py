"""Extracts the facts of the WebNN specification that the operator table must agree with.

    python3 extract.py index.bs > facts.json

`index.bs` is the source of the specification (public repository webmachinelearning/webnn, commit c515210). The facts are
names, types, defaults, and the tables of tensor limits; no sentence of the text is kept.
"""
import json
import re
import sys

text = open(sys.argv[1], encoding="utf-8").read()
idl = re.sub(r"//.*", "", "\n".join(re.findall(r"<script type=\"?idl\"?>(.*?)</script>", text, re.S)))


def split(parameters):
    """Splits at commas that are not inside brackets."""
    parts, depth, current = [], 0, ""
    for c in parameters:
        depth += c in "<([{"
        depth -= c in ">)]}"
        if c == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += c
    return [" ".join(part.split()) for part in parts + [current] if part.strip()]


enums = {name: re.findall(r'"([^"]+)"', body) for name, body in re.findall(r"\benum (\w+) \{(.*?)\}", idl, re.S)}

dictionaries = {}
for name, base, body in re.findall(r"(?<!partial )\bdictionary (\w+)(?:\s*:\s*(\w+))? \{(.*?)\};", idl, re.S):
    members = {}
    for member in filter(None, (" ".join(m.split()) for m in body.split(";"))):
        kind, member_name, default = re.fullmatch(r"(?:required )?(.*?) (\w+)(?: = (.*))?", member).groups()
        members[member_name] = {"type": kind, "default": default}
    dictionaries[name] = {"inherits": base or None, "members": members}

operators = {}
for body in re.findall(r"partial interface MLGraphBuilder \{(.*?)\n\};", idl, re.S):
    for returns, name, parameters in re.findall(r"(MLOperand|sequence<MLOperand>) (\w+)\((.*?)\);", body, re.S):
        arguments = []
        for parameter in split(parameters):
            kind, argument = re.fullmatch(r"(.*) (\w+)(?: = \{\})?", parameter).groups()
            if argument == "options":
                dictionary = kind.removeprefix("optional ")
            else:
                arguments.append({"name": argument, "type": kind})
        operators[name] = {"returns": returns, "arguments": arguments, "dictionary": dictionary}


def plain(cell):
    cell = re.sub(r"\[=/?(?:[^\]|]*\|)?([^\]]*?)=\]", r"\1", cell)
    cell = re.sub(r"\{\{(?:\w+/)?\"?([^}\"]*?)\"?\}\}", r"\1", cell)
    return " ".join(cell.replace("*", "").split())


for table in re.findall(r"<table id=tensor-limits-.*?</table>", text, re.S):
    caption = re.search(r"<caption>(.*?)</caption>", table, re.S).group(1)
    names = re.findall(r"MLGraphBuilder/(\w+)\(", caption) or ["add", "sub", "mul", "div", "max", "min", "pow"]
    limits = []
    for row in re.findall(r"<tr>(.*?)</tr>", table, re.S):
        cells = [plain(cell) for cell in re.findall(r"<td>(.*?)</td>", row, re.S)]
        # The table of prelu lacks a closing tag, so that two of its rows are one.
        for start in range(0, len(cells), 5):
            limits.append(dict(zip(("operand", "types", "requiredTypes", "ranks", "requiredRanks"), cells[start : start + 5])))
    for name in names:
        operators[name]["limits"] = limits

used = {enum for enum in enums if any(enum in json.dumps(d) for d in [dictionaries, operators])}
print(json.dumps({
    "source": "webmachinelearning/webnn, index.bs, commit c515210 (June 2026)",
    "enums": {name: enums[name] for name in sorted(used)},
    "dictionaries": {o["dictionary"]: dictionaries[o["dictionary"]] for o in operators.values()},
    "operators": operators,
}, indent=1))
