#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/plan/suite.h"
#include "tests/plan/temporary_file.h"

namespace dettax {
namespace {

using ::testing::HasSubstr;

std::string failure(const std::string& text) {
  const TemporaryFile file("m.yaml", text);
  try {
    load_mode(file.path());
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::config);
    const std::string message = error.what();
    EXPECT_EQ(message.rfind(file.path(), 0), 0U) << message;
    return message.substr(file.path().size());
  }
  return "no error";
}

TEST(Knobs, EveryValueOfEveryKnobReadsBack) {
  EXPECT_EQ(knob_table().size(), static_cast<size_t>(kKnobCount));
  for (const KnobInfo& info : knob_table()) {
    for (const std::string_view value : info.values) {
      Knobs knobs;
      set_knob(knobs, info.name, value);
      EXPECT_EQ(knob_value(knobs, info.knob), value) << info.name;
    }
    EXPECT_EQ(knob_name(info.knob), info.name);
    EXPECT_EQ(knob_value(Knobs{}, info.knob), info.values[0]) << "the fast value comes first";
  }
}

TEST(Knobs, ChangingOneLeavesTheOthers) {
  for (const KnobInfo& info : knob_table()) {
    Knobs knobs;
    set_knob(knobs, info.name, info.values[1]);
    EXPECT_NE(knobs, Knobs{});
    for (const KnobInfo& other : knob_table()) {
      if (other.knob == info.knob) continue;
      EXPECT_EQ(knob_value(knobs, other.knob), other.values[0]);
    }
  }
}

TEST(Knobs, AWrongWordNamesTheRightOnes) {
  Knobs knobs;
  try {
    set_knob(knobs, "embeding", "atomic");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "knob \"embeding\" does not exist; did you mean \"embedding\"?");
  }
  try {
    set_knob(knobs, "collectives", "ring");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "knob collectives has no value \"ring\"; it is one of arrival, rank_order, invariant");
  }
}

TEST(Mode, AllShippedModesLoadAndDiffer) {
  std::vector<std::string> hashes;
  for (const std::string& name : list_modes()) {
    const Mode mode = load_mode(name);
    EXPECT_EQ(mode.name, name);
    EXPECT_EQ(mode.hash.size(), 16U);
    EXPECT_FALSE(mode.note.empty());
    EXPECT_EQ(mode.claims_reproducible, name != "fast");
    for (const std::string& other : hashes) EXPECT_NE(mode.hash, other) << name;
    hashes.push_back(mode.hash);
  }
  EXPECT_EQ(hashes.size(), 6U);
}

TEST(Mode, FastIsTheDefaultOfEveryKnob) { EXPECT_EQ(load_mode("fast").knobs, Knobs{}); }

TEST(Mode, HashCoversKnobsAndEnvironmentAndNotTheName) {
  const auto hash = [](const std::string& text) {
    return load_mode(TemporaryFile("m.yaml", text).path()).hash;
  };
  const std::string plain = hash("base: fast\nname: a\nclaims_reproducible: false\n");
  EXPECT_EQ(hash("base: fast\nname: b\nnote: another\n"), plain);
  EXPECT_NE(hash("base: fast\nname: a\nknobs: {gemm: ordered}\n"), plain);
  EXPECT_NE(hash("base: fast\nname: a\nenvironment: {NCCL_ALGO: Tree}\n"), plain);
}

TEST(Mode, AVariationIsNotNamedAsItsBase) {
  const TemporaryFile file("m.yaml", "base: deterministic\nknobs: {gemm: arrival}\n");
  const Mode mode = load_mode(file.path());
  EXPECT_EQ(mode.name, "deterministic+gemm.arrival");
  EXPECT_EQ(mode.knobs.gemm, Order::arrival);
  EXPECT_EQ(mode.knobs.attention, Order::ordered);
  EXPECT_TRUE(mode.claims_reproducible);
}

// Case mode-01 (b): a workspace that cuBLAS does not count as reproducible.
TEST(Mode, RefusesAnUnprovenWorkspace) {
  EXPECT_EQ(
      failure("environment:\n  CUBLAS_WORKSPACE_CONFIG: \":4096:2\"\n"),
      ":2: environment.CUBLAS_WORKSPACE_CONFIG: must be :4096:8 or :16:8, not \":4096:2\"; cuBLAS "
      "is not reproducible with others");
  EXPECT_EQ(failure("environment:\n  CUBLAS_WORKSPACE_CONFIG: \":16:8\"\nbase: fast\n"),
            "no error");
}

TEST(Mode, RefusesAnUnprovenAlgorithmOnlyWhereItClaimsReproducibility) {
  const std::string tree = "environment:\n  NCCL_ALGO: Tree\n";
  EXPECT_EQ(
      failure("claims_reproducible: true\n" + tree),
      ":3: environment.NCCL_ALGO: must be a list of Ring, CollnetDirect, CollnetChain, ^NVLS in a "
      "mode that claims to be reproducible, not \"Tree\"; allow_unproven_environment: true accepts "
      "it");
  EXPECT_EQ(failure(tree + "base: fast\n"), "no error");
  EXPECT_EQ(failure("base: deterministic\nallow_unproven_environment: true\n" + tree), "no error");
  EXPECT_EQ(failure("base: deterministic\nenvironment: {NCCL_ALGO: \"Ring,^NVLS\"}\n"), "no error");
}

// A whole mode in six lines, with one knob at another value.
std::string whole_mode(const std::string& claim, const std::string& knob = "",
                       const std::string& value = "") {
  Knobs knobs = load_mode("invariant").knobs;
  if (!knob.empty()) set_knob(knobs, knob, value);
  std::string text = claim + "\nknobs:\n";
  for (const KnobInfo& info : knob_table())
    text += fmt::format("  {}: {}\n", info.name, knob_value(knobs, info.knob));
  return text;
}
const std::string kReproducible = "claims_reproducible: true";
const std::string kInvariant = "claims_reproducible: true\nclaims_invariant: true";

TEST(Mode, WithoutABaseNamesEveryKnob) {
  EXPECT_EQ(failure("claims_reproducible: true\n"),
            ":1: knobs: gemm, attention, embedding, norm, loss, moe, grad_norm, collectives, "
            "schedule, memory_fill, index_ops, overlap, fused_loss are missing; a mode without a "
            "base names every knob, and base: deterministic, say, would supply the others");
  std::string text = whole_mode(kReproducible);
  EXPECT_EQ(failure(text), "no error");
  text.erase(text.find("  loss:"), std::string("  loss: invariant\n").size());
  EXPECT_THAT(failure(text), HasSubstr(":2: knobs: loss is missing;"));
}

TEST(Mode, WithoutABaseHoldsWhatItClaims) {
  EXPECT_EQ(failure(whole_mode(kReproducible, "embedding", "atomic")),
            ":5: knobs.embedding: atomic does not go with claims_reproducible: true, which needs "
            "ordered; allow_unproven_knobs: true accepts it, to see the evidence fail");
  EXPECT_THAT(failure(whole_mode(kReproducible, "collectives", "arrival")),
              HasSubstr("which needs rank_order"));
  EXPECT_EQ(failure(whole_mode(kInvariant)), "no error");
  EXPECT_THAT(failure(whole_mode(kInvariant, "collectives", "rank_order")),
              HasSubstr("knobs.collectives: rank_order does not go with claims_invariant: true, "
                        "which needs invariant"));
  EXPECT_EQ(failure(whole_mode(kReproducible, "collectives", "rank_order")), "no error");
  EXPECT_EQ(failure("allow_unproven_knobs: true\n" + whole_mode(kReproducible, "gemm", "arrival")),
            "no error");
}

// A dynamic schedule changes bits only through sums that are ordered by who computes what.
TEST(Mode, ADynamicScheduleIsRefusedWhereItReachesASum) {
  EXPECT_EQ(failure(whole_mode(kReproducible, "schedule", "dynamic")), "no error");
  std::string text = whole_mode(kReproducible, "schedule", "dynamic");
  const std::string loss = "  loss: invariant";
  text.replace(text.find(loss), loss.size(), "  loss: ordered");
  EXPECT_THAT(failure(text), HasSubstr("knobs.schedule: dynamic does not go with "
                                       "claims_reproducible: true, which needs static"));
}

TEST(Mode, AWeakenedBaseKeepsItsClaimAndReadsBackFromADump) {
  const TemporaryFile file(
      "s.yaml",
      "modes: [{base: deterministic, knobs: {embedding: atomic}}]\n"
      "cases: [{model: gpt-tiny, batch: {micro: 1, global: 1, sequence_length: 32}}]\n");
  const Suite suite = load_suite(file.path());
  EXPECT_TRUE(suite.modes[0].claims_reproducible);
  const TemporaryFile dumped("d.yaml", dump_suite(suite));
  EXPECT_EQ(load_suite(dumped.path()).hash, suite.hash);
}

TEST(Mode, NamesWhatIsWrong) {
  EXPECT_EQ(failure("knobs:\n  gem: ordered\n"),
            ":2: knobs.gem: is no known key; did you mean \"gemm\"?");
  EXPECT_EQ(failure("knobs:\n  schedule: statik\n"),
            ":2: knobs.schedule: must be one of dynamic, static, not \"statik\"; did you mean "
            "\"static\"?");
  EXPECT_EQ(failure("claims_invariant: true\n"),
            ":1: claims_invariant: needs claims_reproducible: true");
  EXPECT_EQ(failure("claims_reproducible: yes\n"),
            ":1: claims_reproducible: must be true or false, not \"yes\"");
  EXPECT_EQ(failure("environment: {\"A B\": 1}\n"),
            ":1: environment.A B: is no name of an environment variable");
  EXPECT_EQ(failure("base: deterministik\n"),
            ":1: base: mode \"deterministik\" does not exist; did you mean \"deterministic\"?");
}

}  // namespace
}  // namespace dettax
