// Messages between a launcher and ranks in processes of their own, and the connections they go over.
#include <csignal>
#include <cstring>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/launch/control_messages.h"
#include "harness/launch/control_server.h"
#include "harness/launch/last_words.h"
#include "harness/launch/rank_links.h"
#include "tests/launch/support.h"

namespace dettax {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

Hello sample_hello(int rank, int size, const std::string& token) {
  Hello hello;
  hello.token = token;
  hello.rank = rank;
  hello.size = size;
  hello.local_rank = 0;
  hello.host = "h" + std::to_string(rank + 1);
  hello.machine = "m";
  hello.process_id = 100 + rank;
  hello.cores = {0, 2};
  hello.numa_nodes = {0, 1};
  hello.variables = {{"NCCL_ALGO", "Ring"}};
  return hello;
}

TEST(ControlMessages, ComeBackAsTheyWere) {
  const Hello hello = sample_hello(3, 4, "t");
  EXPECT_EQ(std::get<Hello>(decode_rank_message(encode(hello))), hello);
  const Heartbeat heartbeat{7, 1234567890123, "forward/layer0/attention"};
  EXPECT_EQ(std::get<Heartbeat>(decode_rank_message(encode(heartbeat))), heartbeat);
  const Welcome welcome{0.25, true, {1, 3}, {0, 0, 1}};
  EXPECT_EQ(decode_welcome(encode(welcome)), welcome);
  Reply reply;
  reply.message = "words";
  EXPECT_EQ(std::get<Reply>(decode_rank_message(encode(reply))).message, "words");
}

TEST(ControlMessages, AnotherVersionIsRefusedAndSoIsNonsense) {
  std::string line = encode(Heartbeat{});
  line.replace(line.find("\"protocol\":1"), 12, "\"protocol\":0");
  EXPECT_THROW(decode_rank_message(line), Error);
  EXPECT_THROW(decode_rank_message("{}"), Error);
  EXPECT_THROW(decode_rank_message("GET / HTTP/1.1"), Error);
  EXPECT_THROW(decode_welcome(encode(Heartbeat{})), Error);
}

TEST(LastWords, AreALineThatTheLauncherReads) {
  RankStatus status;
  status.step = 41;
  status.ops = 123456;
  status.set_op("backward/layer1/\"odd\"");
  const LastWordsLine line(SIGABRT, status);
  const std::string text(line.data(), line.size());
  ASSERT_EQ(text.front(), '\n');
  ASSERT_EQ(text.back(), '\n');
  const auto words = std::get<LastWords>(decode_rank_message(text.substr(1, text.size() - 2)));
  EXPECT_EQ(words, (LastWords{SIGABRT, {41, 123456, "backward/layer1/?odd?"}}));
}

TEST(LastWords, OfARankBeforeItsFirstStepAndOfALongOp) {
  RankStatus status;
  status.set_op(std::string(1000, 'x'));
  const LastWordsLine line(SIGSEGV, status);
  const auto words =
      std::get<LastWords>(decode_rank_message(std::string(line.data() + 1, line.size() - 2)));
  EXPECT_EQ(words.at.step, -1);
  EXPECT_EQ(words.at.op.size(), RankStatus::kTextBytes - 1);
}

// A server, a process that stands for mpirun, and ranks that are threads of this process.
class Gathering : public ::testing::Test {
 protected:
  Process process(const std::string& command) {
    ProcessSpec spec;
    spec.program = "/bin/sh";
    spec.arguments = {"-c", command};
    spec.output = folder_.path() / "log";
    return Process::start(spec);
  }
  Channel say(const std::string& line) {
    Channel channel = connect_to_launcher(server_.addresses(), 5);
    EXPECT_TRUE(channel.send(line));
    return channel;
  }
  std::string refusal(int ranks, Process launcher, double seconds) {
    try {
      gather_ranks(server_, ranks, launcher, seconds, -1);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was refused";
  }

  TemporaryFolder folder_;
  ControlServer server_;
};

TEST_F(Gathering, RanksComeInAnyOrderAndStandInTheirs) {
  Process launcher = process("sleep 60");
  const Channel second = say(encode(sample_hello(1, 2, server_.token())));
  const Channel first = say(encode(sample_hello(0, 2, server_.token())));
  const std::vector<RankLink> links = gather_ranks(server_, 2, launcher, 5, -1);
  EXPECT_EQ(links.at(0).hello.host, "h1");
  EXPECT_EQ(links.at(1).hello.host, "h2");
}

TEST_F(Gathering, StrangersAreNotLetIn) {
  const Channel scanner = say("GET / HTTP/1.1");
  const Channel other = say(encode(sample_hello(1, 2, std::string(32, '0'))));
  const Channel first = say(encode(sample_hello(0, 2, server_.token())));
  EXPECT_THAT(refusal(2, process("sleep 60"), 0.3),
              AllOf(HasSubstr("expected 2 ranks, found 1"), HasSubstr("missing: rank 1")));
}

TEST_F(Gathering, AStarterThatEndsIsToldAtOnce) {
  EXPECT_THAT(refusal(2, process("exit 7"), 60),
              AllOf(HasSubstr("the launcher ended with status 7"), HasSubstr("rank 0, 1")));
}

TEST_F(Gathering, ARankThatIsThereTwiceOrOfAnotherSizeIsRefused) {
  const Channel first = say(encode(sample_hello(0, 2, server_.token())));
  const Channel again = say(encode(sample_hello(0, 2, server_.token())));
  EXPECT_THAT(refusal(2, process("sleep 60"), 5), HasSubstr("rank 0 is there twice: on host h1"));
  const Channel alone = say(encode(sample_hello(0, 1, server_.token())));
  EXPECT_THAT(refusal(2, process("sleep 60"), 5),
              HasSubstr("expected 2 ranks, found 1, says rank 0"));
}

TEST_F(Gathering, WhatRanksSayIsKept) {
  Process launcher = process("sleep 60");
  Channel rank = say(encode(sample_hello(0, 1, server_.token())));
  std::vector<RankLink> links = gather_ranks(server_, 1, launcher, 5, -1);
  EXPECT_TRUE(rank.send(encode(Heartbeat{3, 9, "forward/loss"})));
  EXPECT_TRUE(rank.send("\n"));
  EXPECT_TRUE(rank.send(encode(Reply{})));
  while (!links[0].reply) ASSERT_TRUE(hear(links, 5, -1));
  EXPECT_EQ(links[0].at, (Heartbeat{3, 9, "forward/loss"}));
  EXPECT_FALSE(links[0].closed);
  rank.close();
  ASSERT_TRUE(hear(links, 5, -1));
  EXPECT_TRUE(links[0].closed);
}

TEST(ControlServer, OfAnotherHostIsNamedWhereItDoesNotAnswer) {
  try {
    connect_to_launcher("127.0.0.1:1", 0.1);
    FAIL() << "nothing listens there";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("127.0.0.1:1"), HasSubstr("--control-address")));
  }
}

}  // namespace
}  // namespace dettax
