"""The contract and what is made of it agree: nothing stale, no method without examples, one value for each limit."""

import ast
import copy
import importlib.util
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "schema"))

import generate  # noqa: E402
from model import Contract, SchemaError  # noqa: E402

TEXT = (ROOT / "schema/rex-rpc.json").read_text(encoding="utf-8")
DOCUMENT = json.loads(TEXT)


def load_client_types():
    spec = importlib.util.spec_from_file_location("wire_gen", ROOT / "clients/python/rex_rpc/wire_gen.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def members(value, name=""):
    """Every (name, schema) below a part of the document."""
    if isinstance(value, dict):
        if "schema" in value and "name" in value:
            yield value["name"], value["schema"]
        for key, part in value.get("properties", {}).items() if isinstance(value.get("properties"), dict) else ():
            yield key, part
        for key, part in value.items():
            yield from members(part, key)
    elif isinstance(value, list):
        for part in value:
            yield from members(part, name)


class Outputs(unittest.TestCase):
    def test_nothing_committed_is_stale(self):
        for name, text in generate.outputs().items():
            with self.subTest(name):
                self.assertEqual((ROOT / name).read_text(encoding="utf-8"), text, "run schema/generate.py")

    def test_check_names_the_stale_file_and_changes_nothing(self):
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            shutil.copytree(ROOT / "schema", root / "schema", ignore=shutil.ignore_patterns("__pycache__"))
            run = [sys.executable, str(root / "schema/generate.py")]
            subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
            self.assertEqual(subprocess.run([*run, "--check"], check=False).returncode, 0)
            victim = root / "src/methods/wire.gen.h"
            victim.write_text("edited by hand\n", encoding="utf-8")
            check = subprocess.run([*run, "--check"], check=False, capture_output=True, text=True)
            self.assertEqual(check.returncode, 1)
            self.assertEqual(check.stdout, "src/methods/wire.gen.h is stale: run schema/generate.py\n")
            self.assertEqual(victim.read_text(encoding="utf-8"), "edited by hand\n")

    def test_the_embedded_document_is_the_document(self):
        lines = generate.outputs()["src/methods/openrpc.gen.cc"].split('    R"json(')[1:]
        pieces = [line.split(')json",')[0] for line in lines]
        self.assertEqual(json.loads("".join(pieces)), DOCUMENT)
        self.assertLess(max(map(len, pieces)), 16384)

    def test_python_types_are_good_for_python_3_9(self):
        ast.parse((ROOT / "clients/python/rex_rpc/wire_gen.py").read_text(encoding="utf-8"), feature_version=(3, 9))


class Examples(unittest.TestCase):
    def test_every_method_has_a_good_and_a_bad_one(self):
        for method in DOCUMENT["methods"]:
            with self.subTest(method["name"]):
                path = ROOT / "schema/examples" / (method["name"].replace("/", "-") + ".json")
                examples = json.loads(path.read_text(encoding="utf-8"))
                self.assertEqual(set(examples), {"good", "bad"})
                self.assertTrue(examples["good"] and examples["bad"])
                if "result" in method:
                    self.assertIn("result", examples["good"][0])

    def test_none_is_of_no_method(self):
        names = {method["name"].replace("/", "-") + ".json" for method in DOCUMENT["methods"]}
        self.assertEqual({path.name for path in (ROOT / "schema/examples").iterdir()}, names)


class Versions(unittest.TestCase):
    """What an instance writes of params for another version to read, it writes with their defaults: a digest beside a key
    in the user's files, and what one asks of its neighbour in a copy. A member that is added is written only when given."""

    DEFAULTS = {
        "session/create": "clearEnv cols env journalBytes labels lifetime onFull profile restart rows startup startupSource"
                          " startupTimeoutMs tty",
        "session/close": "graceMs", "file/write": "append encoding ifAbsent parents", "file/edit": "dryRun edits",
        "file/mkdir": "parents", "file/remove": "recursive", "file/rename": "overwrite", "file/symlink": "",
        "file/setattr": "", "file/send": "excludes recursive", "file/receive": "overwrite",
    }

    def test_a_member_that_is_added_has_no_default_where_another_version_would_miss_it(self):
        for method in DOCUMENT["methods"]:
            if method["name"] in self.DEFAULTS:
                with self.subTest(method["name"]):
                    defaults = {each["name"] for each in method["params"] if "default" in each.get("schema", {})}
                    self.assertEqual(defaults, set(self.DEFAULTS[method["name"]].split()))


class Limits(unittest.TestCase):
    def test_a_member_named_like_a_limit_has_its_default_and_its_most(self):
        params = [DOCUMENT["methods"], DOCUMENT["components"]["contentDescriptors"]]
        found = set()
        for name, schema in members(params):
            limit = schema.get("x-limit")
            if name in DOCUMENT["x-limits"] and isinstance(schema.get("default"), int):  # `keys` to press are no limit
                self.assertEqual(limit, name)
            if limit:
                found.add(limit)
                self.assertEqual(schema["default"], DOCUMENT["x-limits"][limit]["value"])
                target = schema
                if "$ref" in schema:
                    target = DOCUMENT["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
                self.assertEqual(target["maximum"], DOCUMENT["x-limits"][limit].get("max", target["maximum"]))
        self.assertLessEqual({"rows", "cols", "graceMs", "journalBytes", "maxOutputBytes", "read.maxBytes"}, found)

    def test_the_clients_have_the_values_of_the_document(self):
        wire = load_client_types()
        self.assertEqual(wire.LIMITS, {name: limit["value"] for name, limit in DOCUMENT["x-limits"].items()})
        errors = DOCUMENT["components"]["errors"]
        self.assertEqual(wire.ERROR_CODES, {name: error["code"] for name, error in errors.items()})
        typescript = (ROOT / "clients/typescript/src/wire.gen.ts").read_text(encoding="utf-8")
        for name, limit in DOCUMENT["x-limits"].items():
            self.assertIn(f"  {json.dumps(name)}: {limit['value']},\n", typescript)
        for name, error in errors.items():
            self.assertIn(f"  {name}: {error['code']},\n", typescript)

    def test_error_codes_are_used_once(self):
        codes = [error["code"] for error in DOCUMENT["components"]["errors"].values()]
        self.assertEqual(len(codes), len(set(codes)))


class Refusals(unittest.TestCase):
    """The generator stops at what it would otherwise ignore."""

    def check(self, change, words):
        document = copy.deepcopy(DOCUMENT)
        change(document)
        with self.assertRaisesRegex(SchemaError, words):
            Contract(json.dumps(document))

    def test_a_keyword_no_reader_checks(self):
        self.check(lambda d: d["components"]["schemas"]["Mode"].update(multipleOf=2), "multipleOf")

    def test_a_pattern_no_reader_checks(self):
        self.check(lambda d: d["components"]["schemas"]["Time"].update(pattern="^2"), "pattern")

    def test_a_default_that_is_not_the_limit_it_names(self):
        self.check(lambda d: d["x-limits"]["rows"].update(value=51), "rows")

    def test_an_os_string_that_could_not_travel_as_base64(self):
        self.check(lambda d: d["components"]["schemas"]["Process"]["properties"].pop("commandBytes"), "commandBytes|twin")

    def test_bounds_of_elements_that_no_reader_checks(self):
        def change(document):
            document["components"]["schemas"]["OsString"]["maxLength"] = 4096

        self.check(change, "bounds within (argv|startupSource|env)")

    def test_a_reference_to_nothing(self):
        self.check(lambda d: d["components"]["schemas"].pop("Stream"), "Stream")


if __name__ == "__main__":
    unittest.main()
