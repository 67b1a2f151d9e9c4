// Bad input: one clear line that names file, key and what would be right, and never a crash.
#include <filesystem>
#include <fstream>
#include <ostream>
#include <random>

#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/plan/loaders.h"
#include "harness/plan/suite.h"
#include "harness/plan/yaml.h"
#include "tests/plan/temporary_file.h"

namespace dettax {
namespace {

// The message without the file's path in front; each is one line.
std::string failure(const std::string& text, const std::vector<Override>& overrides = {}) {
  const TemporaryFile file("s.yaml", text);
  try {
    load_suite(file.path(), overrides);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::config);
    std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    if (message.rfind(file.path(), 0) == 0) message.erase(0, file.path().size());
    const size_t again = message.find(file.path());
    if (again != std::string::npos) message.replace(again, file.path().size(), "FILE");
    return message;
  }
  return "no error";
}

// A suite of one case that is right, so that one change makes one fault.
std::string suite(const std::string& case_lines, const std::string& suite_lines = "") {
  return "modes: [deterministic]\n" + suite_lines + "cases:\n- model: gpt-tiny\n" + case_lines;
}
const std::string kBatch = "  batch: {micro: 2, global: 4, sequence_length: 64}\n";

TEST(BadInput, TheSuiteWithoutAFaultLoads) { EXPECT_EQ(failure(suite(kBatch)), "no error"); }

TEST(BadInput, QuotedTextsThatEndAreTaken) {
  EXPECT_EQ(failure(suite(kBatch) + "description: \"a \\\" b\"\n"), "no error");
  EXPECT_EQ(failure(suite(kBatch) + "description: 'it''s'\n"), "no error");
  EXPECT_EQ(failure(suite(kBatch) + "description: \"\xC3\xA9 in\n  two lines\"  # \" and on\n"),
            "no error");
}

TEST(BadInput, AFileThatIsItsOwnBaseIsNamed) {
  const TemporaryFile mode("own.yaml", "");
  const TemporaryFile again("again.yaml", "base: " + mode.path() + "\n");
  std::ofstream(mode.path()) << "base: " << again.path() << "\n";
  const auto complaint = [](const auto& load) -> std::string {
    try {
      load();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const std::string circle = again.path() + ":1: base: " + mode.path() +
                             " is made from itself: " + mode.path() + " -> " + again.path() +
                             " -> " + mode.path();
  EXPECT_EQ(complaint([&] { load_mode(mode.path()); }), circle + "; a base must be another mode");
  EXPECT_EQ(complaint([&] { load_model(mode.path()); }), circle + "; a base must be another model");
}

struct Bad {
  std::string text;
  std::string message;
  friend std::ostream& operator<<(std::ostream& out, const Bad& bad) {
    return out << bad.text.substr(0, 300);
  }
};

class BadSuite : public testing::TestWithParam<Bad> {};

TEST_P(BadSuite, NamesFileLineKeyAndWhatIsRight) {
  EXPECT_EQ(failure(GetParam().text), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Files, BadSuite,
    testing::Values(
        Bad{"", ": is empty"}, Bad{"# only a comment\n", ": is empty"},
        Bad{"- a\n- b\n", ":1: must be a mapping of keys to values, not a list"},
        Bad{"words\n", ":1: must be a mapping of keys to values, not \"words\""},
        Bad{"a: 1\n---\nb: 2\n", ": holds 2 YAML documents; it must hold one"},
        Bad{std::string("\x7f"
                        "ELF\0\1",
                        6),
            ": is not a text file: it holds a zero byte"},
        Bad{"modes: [a\ncases: {\n",
            ":2: is not valid YAML: a list that begins with [ is not closed with ]"},
        Bad{"a: {b\n", ":2: is not valid YAML: a mapping that begins with { is not closed with }"},
        Bad{"a: b: c\n",
            ":1: is not valid YAML: a colon where none may stand; indent with spaces, and quote a "
            "text that holds one"},
        Bad{"a: @x\n", ":1: is not valid YAML: a character that begins no value; quote the text"},
        Bad{"a: *x\n",
            ":1: is not valid YAML: an alias without its anchor; quote a text that begins with *"},
        Bad{"a: \"\\y\"\n",
            ":1: is not valid YAML: no such escape; write \\\\ for a backslash, or 'single "
            "quotes'"},
        Bad{std::string(5000, '['), ":1: is not valid YAML: it is nested too deep"},
        Bad{std::string(100, '[') + std::string(100, ']'), ":1: nested deeper than 32 levels"},
        Bad{"a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]\n"
            "c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c, "
            "*c, *c, *c]\n"
            "e: [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d, *d, *d]\n",
            ":1: more than 100000 values"},
        Bad{std::string((1U << 20U) + 1, '#'), ": is larger than 1 MiB; is it a configuration?"}));

INSTANTIATE_TEST_SUITE_P(
    Keys, BadSuite,
    testing::Values(
        Bad{suite(kBatch, "mesure: {}\n"),
            ":2: mesure: is no known key; did you mean \"measure\"?"},
        Bad{suite(kBatch, "measure:\n  budget_secs: 3\n"),
            ":3: measure.budget_secs: is no known key; did you mean \"budget_seconds\"?"},
        Bad{suite(kBatch, "measure: {}\nname: a\nmeasure: {}\n"),
            ":4: measure: given twice; first at FILE:2"},
        Bad{suite(kBatch + kBatch), ":5: batch: given twice; first at FILE:4"},
        Bad{suite(kBatch + "  thread: 2\n"),
            ":5: cases.0.thread: is no known key; did you mean \"threads\"?"},
        Bad{suite(kBatch + "  \"a\\nb\": 2\n"),
            ":5: cases.0.a?b: is no known key; known: model, layout, precision, backend, threads, "
            "topology, "
            "batch, data, optimizer, seed, injections, label"},
        Bad{"cases: []\n", ":1: modes: is missing"},
        Bad{"modes: [deterministic]\n", ":1: cases: is missing"},
        Bad{"modes: [deterministic]\ncases: []\n",
            ":2: cases: is an empty list; it must hold a case"},
        Bad{"modes: []\ncases: []\n", ":1: modes: is an empty list; it must name a mode"},
        Bad{"modes: [deterministic]\ncases: [gpt-tiny]\n",
            ":2: cases.0: must be a mapping of keys to values, not \"gpt-tiny\""},
        Bad{"modes: [determinstic]\ncases: []\n",
            ":1: modes.0: mode \"determinstic\" does not exist; did you mean \"deterministic\"?"},
        Bad{"modes: [deterministic, deterministic]\ncases: []\n",
            ":1: modes.1: a second arm named \"deterministic\" in modes; give it a name of its "
            "own"},
        Bad{"modes: [fast]\ncases: []\n",
            ":1: modes.0: a second arm named \"fast\" in modes; give it a name of its own"}));

INSTANTIATE_TEST_SUITE_P(
    Values, BadSuite,
    testing::Values(
        Bad{suite(kBatch, "measure: {budget_seconds: inf}\n"),
            ":2: measure.budget_seconds: must be a number above 0 and at most 1e+07, not \"inf\""},
        Bad{suite(kBatch, "measure: {budget_seconds: -3}\n"),
            ":2: measure.budget_seconds: must be a number above 0 and at most 1e+07, not \"-3\""},
        Bad{suite(kBatch, "measure: {rounds_min: 6.5}\n"),
            ":2: measure.rounds_min: must be a whole number from 3 to 1000000, not \"6.5\""},
        Bad{suite(kBatch, "measure: {rounds_min: 9, rounds_max: 3}\n"),
            ":2: measure.rounds_max: must be at least rounds_min (9)"},
        Bad{suite(kBatch, "evidence: {relaunch: yes}\n"),
            ":2: evidence.relaunch: must be true or false, not \"yes\""},
        Bad{suite(kBatch, "thresholds: {max_overhead_ratio: 0.1}\n"),
            ":2: thresholds.max_overhead_ratio: must be a number of at least 1, not \"0.1\""},
        Bad{suite(kBatch + "  seed: 010\n"),
            ":5: cases.0.seed: must be a whole number of at least 0, not \"010\""},
        Bad{suite(kBatch + "  seed: \"1\"\n"),
            ":5: cases.0.seed: must be a whole number of at least 0, not \"1\""},
        Bad{suite(kBatch + "  seed: 99999999999999999999\n"),
            ":5: cases.0.seed: must be a whole number from 0 to 9223372036854775807, not "
            "\"99999999999999999999\""},
        Bad{suite(kBatch + "  threads: two\n"),
            ":5: cases.0.threads: must be a whole number from 1 to 1024, not \"two\""},
        Bad{suite(kBatch + "  threads: 99999999999999999999\n"),
            ":5: cases.0.threads: must be a whole number from 1 to 1024, not "
            "\"99999999999999999999\""},
        Bad{suite(kBatch + "  precision: fp23\n"),
            ":5: cases.0.precision: must be one of fp32, tf32, bf16, fp16, fp8_cs, fp8_ds, fp8_mx, "
            "nvfp4, "
            "not "
            "\"fp23\"; did you mean \"fp32\"?"},
        Bad{suite(kBatch + "  precision: []\n"), ":5: cases.0.precision: is an empty list"},
        Bad{suite(kBatch + "  layout: dp2.zp3\n"),
            ":5: cases.0.layout: \"zp3\" is no part of a layout; it must be like "
            "dp2.tp4.pp2.sp.zero1 (axes "
            "dp, tp, pp, vp, cp, ep; sp, zero1, zero3, gpipe, selective, full)"},
        Bad{suite(kBatch + "  layout: dp1.dp2\n"),
            ":5: cases.0.layout: dp is given twice in \"dp1.dp2\"; once is right"},
        Bad{suite(kBatch + "  layout: dp2.zero1.zero3\n"),
            ":5: cases.0.layout: zero is given twice in \"dp2.zero1.zero3\"; once is right"},
        Bad{suite(kBatch + "  topology: lokal\n"),
            ":5: cases.0.topology: cluster \"lokal\" does not exist; did you mean \"local\"?"},
        Bad{suite(kBatch + "  layout: {dp: 2, ep: 4}\n"),
            ":5: cases.0.layout: ep (4) must divide dp (2)"},
        Bad{suite("  layout: dp3\n" + kBatch),
            ":5: cases.0.batch.global: 4 is not divisible by micro * dp = 2 * 3; 6 would be"},
        Bad{suite("  batch: {global: 4}\n"), ":4: cases.0.batch.sequence_length: is missing"},
        Bad{suite(""), ":3: cases.0.batch: is missing"},
        Bad{suite(kBatch + "  topology: {nodes: 2, ranks_per_node: 3}\n"),
            ":5: cases.0.topology: 2 nodes x 3 ranks are not the 1 ranks of layout dp1"},
        Bad{suite(kBatch + "  data: {kind: text}\n"),
            ":5: cases.0.data.path: is missing; kind text needs the path of a file"},
        Bad{suite(kBatch) + "description: \"never closed\nthresholds: {max_overhead_ratio: 1.01}\n",
            ":5: a text that begins with \" is not closed with it"},
        Bad{suite(kBatch) + "description: 'it''s\n",
            ":5: a text that begins with ' is not closed with it"},
        Bad{suite(kBatch +
                  "  layout: dp2\n  topology: {nodes: 2, ranks_per_node: 1, links: {inter_node: "
                  "{bytes_per_second: 1e-300}}}\n"),
            ":6: cases.0.topology.links.inter_node.bytes_per_second: must be at least 1000, or 0 "
            "for "
            "a link as the machine has it"},
        Bad{suite(kBatch + "  injections: [{kind: delay, op: forward}]\n"),
            ":5: cases.0.injections.0.seconds: is missing; 0.001 makes each such op a millisecond "
            "longer"},
        Bad{suite(kBatch + "  injections: [{kind: slow}]\n"),
            ":5: cases.0.injections.0.ratio: is missing; 0.03 makes each step 3 % longer"},
        Bad{suite(kBatch + "  injections: [{kind: nan, rank: 1}]\n"),
            ":5: cases.0.injections.0.rank: must be a whole number from 0 to 0, not \"1\""},
        Bad{suite(kBatch + "  injections: [{kind: nan, arm: deterministik}]\n"),
            ":5: cases.0.injections.0.arm: there is no arm \"deterministik\"; did you mean "
            "\"deterministic\"?"},
        Bad{suite(kBatch + "  label: a/b\n"),
            ":5: cases.0.label: \"a/b\" is no name; it must be up to 80 letters, digits, dots, "
            "underscores, "
            "plus and minus signs, and not begin with a dot"},
        Bad{suite(kBatch + "- model: gpt-tiny\n" + kBatch),
            ":5: cases.1: a second case gpt-tiny.fp32.dp1.t1.b4x64.m2; a `label` tells them apart"},
        Bad{suite("  threads: [1, 2, 1]\n" + kBatch),
            ":3: cases.0: a second case gpt-tiny.fp32.dp1.t1.b4x64.m2; a `label` tells them "
            "apart"}));

std::string model_case(const std::string& model) {
  return "modes: [deterministic]\ncases:\n- model: " + model + "\n" + kBatch;
}

INSTANTIATE_TEST_SUITE_P(
    Models, BadSuite,
    testing::Values(
        Bad{model_case("gtp-tiny"),
            ":3: cases.0.model: model \"gtp-tiny\" does not exist; did you mean \"gpt-tiny\"?"},
        Bad{model_case("{base: gpt-tiny, layers: -2}"),
            ":3: cases.0.model.layers: must be a whole number from 1 to 100000, not \"-2\""},
        Bad{model_case("{base: gpt-tiny, layer: 2}"),
            ":3: cases.0.model.layer: is no known key; did you mean \"layers\"?"},
        Bad{model_case("{base: gpt-tiny, width: 130}"),
            ":3: cases.0.model.width: 130 is not divisible by heads (4); give head_width, or a "
            "multiple of "
            "4"},
        Bad{model_case("{base: llama-tiny, key_value_heads: 3}"),
            ":3: cases.0.model.key_value_heads: 3 does not divide heads (4)"},
        Bad{model_case("{base: gpt-tiny, dropout: 1}"),
            ":3: cases.0.model.dropout: must be a number of at least 0 and at most 0.99, not "
            "\"1\""},
        Bad{model_case("{base: gpt-tiny, activation: relu}"),
            ":3: cases.0.model.activation: must be one of gelu, swiglu, not \"relu\"; did you mean "
            "\"gelu\"?"},
        Bad{model_case("{name: x, heads: 2}"), ":3: cases.0.model.vocabulary: is missing"},
        Bad{model_case("{base: gpt-tiny, moe: {experts: 4, expert_width: 8, top_k: 5}}"),
            ":3: cases.0.model.moe.top_k: must be from 1 to experts (4)"}));

TEST(BadInput, AFolderAndAMissingFileAreNamed) {
  const std::string folder = std::filesystem::temp_directory_path().string() + "/";
  const auto message = [](const std::string& path) {
    try {
      load_suite(path);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message(folder), folder + ": is a folder; it must be a YAML file");
  EXPECT_EQ(message("/no/such.yaml"), "/no/such.yaml: cannot be read: No such file or directory");
  EXPECT_EQ(message("quik"), "suite \"quik\" does not exist; did you mean \"quick\"?");
}

TEST(BadInput, BytesThatAreNoUtf8AreNamedWithTheirLine) {
  try {
    parse_yaml("name: x\ndescription: caf\xe9\n", "s.yaml");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), "s.yaml:2: byte 0xe9 is no UTF-8");
  }
}

TEST(BadInput, DamagedFilesGiveOneLineOrLoad) {
  const std::string good = dump_suite(load_suite("tiny"));
  std::mt19937 random(11);
  int refused = 0;
  for (int i = 0; i < 400; ++i) {
    std::string text = good;
    for (int k = 0; k < 3; ++k) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random() % 256);
          break;
        case 1:
          text.erase(at, random() % 20);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 40));
          break;
      }
    }
    if (failure(text) != "no error") ++refused;
  }
  EXPECT_GT(refused, 200);
}

TEST(BadInput, OverridesNameTheNearestKey) {
  const std::string good = suite(kBatch);
  EXPECT_EQ(failure(good, {{"measure.budget_secs", "3"}}),
            "-C measure.budget_secs: is no known key; did you mean \"budget_seconds\"?");
  EXPECT_EQ(failure(good, {{"mesure.budget_seconds", "3"}}),
            "-C mesure.budget_seconds: mesure: is no known key; did you mean \"measure\"?");
  EXPECT_EQ(failure(good, {{"cases.3.seed", "3"}}),
            "-C cases.3.seed: \"3\" is no entry of a list of 1; entries count from 0, * is every "
            "one");
  EXPECT_EQ(failure(good, {{"measure.budget_seconds", "long"}}),
            "-C measure.budget_seconds: must be a number above 0 and at most 1e+07, not \"long\"");
  EXPECT_EQ(failure(good, {{"measure..x", "1"}}),
            "-C measure..x: an empty part in the path; it must be like measure.budget_seconds");
  EXPECT_EQ(failure(good, {{"name", "a b"}}).rfind("-C name: \"a b\" is no name;", 0), 0U);
  EXPECT_EQ(failure(good, {{"cases.0", "{model: gpt-tiny}"}}), "-C cases.0: batch: is missing");
  EXPECT_EQ(
      failure(good, {{"defaults.threads", "0"}}),
      "-C defaults.threads: cases.0.threads: must be a whole number from 1 to 1024, not \"0\"");
}

std::string value_failure(const std::string& text) {
  try {
    const Override refused("seed", text);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(BadInput, AValueThatIsNoYamlNamesItsOverride) {
  EXPECT_EQ(value_failure("3"), "no error");
  EXPECT_EQ(value_failure("[1"),
            "-C seed: is not valid YAML: a list that begins with [ is not closed with ]");
}

TEST(BadInput, AnOverrideThatSpoilsAnotherKeyIsNamed) {
  const std::string good = suite(kBatch);
  EXPECT_EQ(
      failure(good, {{"cases.0.layout", "dp3"}, {"cases.0.seed", "3"}}),
      "-C cases.0.layout=dp3: FILE:4: cases.0.batch.global: 4 is not divisible by micro * dp = "
      "2 * 3; 6 would be");
  EXPECT_EQ(failure(good, {{"cases.0.layout", "dp3"}, {"cases.0.batch.global", "6"}}), "no error");
  // The file's own fault is not put down to an override.
  EXPECT_EQ(failure(suite(kBatch + "  layout: dp3\n"), {{"cases.0.seed", "3"}}),
            ":4: cases.0.batch.global: 4 is not divisible by micro * dp = 2 * 3; 6 would be");
}

TEST(BadInput, ASettingOfEveryCaseNamesTheCase) {
  const Suite tiny = load_suite("tiny");
  const Override setting("cases.*.layout.dp", yaml_scalar("3"), "--dp", "3");
  const Override ranks("cases.*.topology.ranks_per_node", Yaml{}, "--dp", "3");
  try {
    with_overrides(tiny, {setting, ranks});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "--dp 3: case gpt-tiny-l1.fp32.dp1.t2.b4x64.m2: batch.global: 4 is not divisible by "
              "micro * dp = 2 * 3; 6 would be");
  }
}

// A case on the text file at `path`.
std::string text_case(const std::string& path) {
  return suite(kBatch + "  data: {kind: text, path: \"" + path + "\"}\n");
}

TEST(BadInput, ATextMustBeAFileThatIsLongEnough) {
  const TemporaryFile whole("t.txt", std::string(65, 'x')), small("u.txt", std::string(64, 'x')),
      empty("v.txt", "");
  const std::string at = ":5: cases.0.data.path: ";
  EXPECT_EQ(failure(text_case(whole.path())), "no error");
  EXPECT_EQ(
      failure(text_case(small.path())),
      at + "\"" + small.path() + "\" has 64 bytes; a sequence of 64 tokens needs at least 65");
  EXPECT_EQ(failure(text_case(empty.path())),
            at + "\"" + empty.path() + "\" has 0 bytes; a sequence of 64 tokens needs at least 65");
  EXPECT_EQ(failure(text_case(small.folder())),
            at + "\"" + small.folder() + "\" is a folder; it must be a text file");
  EXPECT_EQ(failure(text_case("/no/such/text")), at + "\"/no/such/text\" does not exist");
  EXPECT_EQ(failure(text_case("/dev/null")),
            at + "\"/dev/null\" is a pipe or a device; it must be a text file");
}

TEST(BadInput, ARelativeTextThatIsMissingSaysWhereItWasLookedFor) {
  const std::string message = failure(text_case("no-such-text"));
  const std::string said = ":5: cases.0.data.path: \"no-such-text\" does not exist in ";
  EXPECT_EQ(message.substr(0, said.size()), said);
  EXPECT_EQ(message.find(std::filesystem::current_path().string()), std::string::npos) << message;
}

TEST(SuiteText, StartsAtTheFolderOfTheSuite) {
  const TemporaryFile text("t.txt", std::string(65, 'x'));
  const std::string name = std::filesystem::path(text.path()).filename().string();
  const std::string beside = text.folder() + "/suite.yaml";
  const Suite loaded = parse_suite(text_case(name), beside);
  EXPECT_EQ(loaded.cases[0].data.path, text.path());
  EXPECT_EQ(parse_suite(dump_suite(loaded), "elsewhere/suite.yaml").cases[0].data.path,
            text.path());
  // A copy elsewhere is the same text.
  const TemporaryFile copy("u.txt", std::string(65, 'x'));
  std::filesystem::rename(copy.path(), copy.folder() + "/" + name);
  EXPECT_EQ(parse_suite(text_case(name), copy.folder() + "/suite.yaml").hash, loaded.hash);
}

TEST(BadInput, ATextThatChangedSinceItWasPlannedIsRefused) {
  const TemporaryFile text("t.txt", std::string(65, 'x'));
  const TemporaryFile plain("s.yaml", text_case(text.path()));
  const Suite loaded = load_suite(plain.path());
  EXPECT_EQ(loaded.cases[0].data.bytes, 65);
  EXPECT_EQ(loaded.cases[0].data.hash.size(), 32U);
  const TemporaryFile dumped("d.yaml", dump_suite(loaded));
  EXPECT_EQ(load_suite(dumped.path()).hash, loaded.hash);
  std::ofstream(text.path()) << std::string(64, 'x') << 'y';
  EXPECT_NE(load_suite(plain.path()).hash, loaded.hash);
  try {
    load_suite(dumped.path());
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("is not the text that was planned with: its hash is "),
              std::string::npos)
        << error.what();
  }
}

TEST(BadInput, ATextNeedsATokenForEveryByte) {
  const TemporaryFile text("t.txt", std::string(65, 'x'));
  EXPECT_EQ(failure("modes: [deterministic]\ncases:\n- model: {base: gpt-tiny, vocabulary: 90}\n" +
                    kBatch + "  data: {kind: text, path: \"" + text.path() + "\"}\n"),
            ":5: cases.0.data.kind: text has 256 tokens, one a byte; model gpt-tiny+vocabulary has "
            "a vocabulary of 90");
}

}  // namespace
}  // namespace dettax
