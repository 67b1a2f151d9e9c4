#include "harness/launch/protocol.h"

#include <gtest/gtest.h>

#include "harness/launch/base64.h"
#include "harness/plan/suite.h"
#include "tests/launch/support.h"

namespace dettax {
namespace {

TEST(Protocol, AWholeCaseAndItsModeArriveAsTheyWereSent) {
  const testing::TemporaryFolder folder;
  const Suite suite = testing::tiny_suite(
      folder.path(),
      "  - {label: one, seed: 9007199254740993, optimizer: {learning_rate: 0.1, epsilon: "
      "1e-9},\n"
      "     injections: [{kind: slow, arm: fast, rank: 1, step: 3, ratio: 0.03}]}\n",
      "[megatron-det]");
  const ArmSpec sent{"megatron-det", suite.cases.at(0), suite.modes.at(0)};
  const WorkerRequest received = decode_request(encode(WorkerRequest{request::Prepare{sent}}));
  const ArmSpec& spec = std::get<request::Prepare>(received).spec;
  EXPECT_EQ(spec.arm, sent.arm);
  EXPECT_EQ(spec.mode.knobs, sent.mode.knobs);
  EXPECT_EQ(spec.mode.environment, sent.mode.environment);
  EXPECT_EQ(spec.mode.hash, sent.mode.hash);
  EXPECT_TRUE(spec.mode.claims_reproducible);  // a ledger's head repeats it
  EXPECT_EQ(spec.mode.claims_invariant, sent.mode.claims_invariant);
  // The dump of a suite has every field of a case.
  Suite again = suite;
  again.cases = {spec.planned};
  EXPECT_EQ(dump_suite(again), dump_suite(suite));
}

TEST(Protocol, EveryShippedModelArrivesAsItWasSent) {
  const testing::TemporaryFolder folder;
  for (const std::string& name : list_models()) {
    const Suite suite =
        testing::tiny_suite(folder.path(), "  - {model: " + name + "}\n", "[deterministic]");
    const ArmSpec sent{"deterministic", suite.cases.at(0), suite.modes.at(0)};
    const WorkerRequest received = decode_request(encode(WorkerRequest{request::Prepare{sent}}));
    Suite again = suite;
    again.cases = {std::get<request::Prepare>(received).spec.planned};
    EXPECT_EQ(dump_suite(again), dump_suite(suite)) << name;
    // A field that does not travel is seen.
    if (again.cases[0].model.moe) again.cases[0].model.moe->capacity_factor += 1;
    again.cases[0].model.width += 1;
    EXPECT_NE(dump_suite(again), dump_suite(suite)) << name;
  }
}

TEST(Protocol, ARoundTripOfARequestKeepsItsNumbers) {
  const WorkerRequest received = decode_request(
      encode(WorkerRequest{request::WriteLedger{18446744073709551615ULL, 3, "a \"path\""}}));
  const auto& ledger = std::get<request::WriteLedger>(received);
  EXPECT_EQ(ledger.seed, 18446744073709551615ULL);
  EXPECT_EQ(ledger.steps, 3);
  EXPECT_EQ(ledger.path, "a \"path\"");
}

TEST(Protocol, AWeakenedKnobAndTheStressOfALedgerArrive) {
  const WorkerRequest ledger =
      decode_request(encode(WorkerRequest{request::WriteLedger{1, 2, "", 77}}));
  EXPECT_EQ(std::get<request::WriteLedger>(ledger).stress, 77U);
  const WorkerRequest weaken = decode_request(encode(WorkerRequest{request::Weaken{"loss"}}));
  EXPECT_EQ(std::get<request::Weaken>(weaken).knob, "loss");
}

TEST(Protocol, ARepliesTimesKeepEveryBit) {
  Reply sent;
  sent.step_time_seconds = {{0.1, 1.0 / 3}, {2e-300, 5}};
  sent.message = "bytes that are no text: \xff";
  sent.ok = false;
  sent.kind = ErrorKind::numeric;
  const Reply received = decode_reply(encode(sent));
  EXPECT_EQ(received.step_time_seconds, sent.step_time_seconds);
  EXPECT_EQ(received.kind, ErrorKind::numeric);
  EXPECT_FALSE(received.ok);
}

TEST(Protocol, AnotherVersionIsRefused) {
  EXPECT_THROW(decode_request(R"({"protocol": 2, "request": "exit"})"), Error);
  EXPECT_THROW(decode_request(R"({"request": "exit"})"), Error);
  EXPECT_THROW(decode_request("not JSON"), Error);
  EXPECT_THROW(decode_request(R"({"protocol": 1, "request": "dance"})"), Error);
  EXPECT_NO_THROW(decode_request(R"({"protocol": 1, "request": "exit"})"));
}

TEST(Protocol, ALedgersBytesArriveAsTheyAre) {
  std::string bytes;
  for (int i = 0; i < 258; ++i) {
    Reply reply;
    reply.ledger = bytes;
    EXPECT_EQ(decode_reply(encode(reply)).ledger, bytes);
    bytes += static_cast<char>(i);
  }
  EXPECT_EQ(to_base64("any carnal pleas"), "YW55IGNhcm5hbCBwbGVhcw==");
  EXPECT_THROW(from_base64("a*"), Error);
  request::WriteLedger shallow{1, 2, "", 0, LedgerDepth::layer};
  const WorkerRequest received = decode_request(encode(WorkerRequest{shallow}));
  EXPECT_EQ(std::get<request::WriteLedger>(received).depth, LedgerDepth::layer);
}

}  // namespace
}  // namespace dettax
