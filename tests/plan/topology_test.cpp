#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/plan/suite.h"
#include "tests/plan/temporary_file.h"

namespace dettax {
namespace {

using testing::HasSubstr;

Suite load_topology(const std::string& topology) {
  const std::string text =
      "modes: [deterministic]\ncases:\n- model: gpt-tiny\n  layout: dp4\n  batch: {global: 4, "
      "sequence_length: 64}\n  topology: " +
      topology + "\n";
  return load_suite(TemporaryFile("s.yaml", text).path());
}

std::string refused(const std::string& topology) {
  try {
    load_topology(topology);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(Topology, LinksAreReadAndWrittenOut) {
  const Suite suite = load_topology(
      "{nodes: 2, links: {intra_node: {latency_seconds: 1e-6}, inter_node: {bytes_per_second: "
      "125e6, latency_seconds: 50e-6}}}");
  const Topology& topology = suite.cases.at(0).topology;
  EXPECT_EQ(topology.ranks_per_node, 2);
  EXPECT_EQ(topology.inter_node.bytes_per_second, 125e6);
  EXPECT_EQ(topology.inter_node.latency_seconds, 50e-6);
  EXPECT_EQ(topology.intra_node.bytes_per_second, 0);
  EXPECT_TRUE(topology.emulates_links());
  EXPECT_EQ(link_words(topology), "inside a node 1.00 us, between nodes 119 MiB/s and 50.0 us");
  const Suite again = load_suite(TemporaryFile("again.yaml", dump_suite(suite)).path());
  EXPECT_EQ(dump_suite(again), dump_suite(suite));
  EXPECT_NE(load_topology("{nodes: 2}").hash, suite.hash);
}

TEST(Topology, WithoutLinksNothingIsEmulated) {
  const Topology topology = load_topology("{nodes: 2}").cases.at(0).topology;
  EXPECT_FALSE(topology.emulates_links());
  EXPECT_EQ(link_words(topology), "");
}

TEST(Topology, WhatCannotBeIsRefusedByItsKey) {
  EXPECT_THAT(refused("{nodes: 3}"), HasSubstr("3 nodes x 1 ranks are not the 4 ranks"));
  EXPECT_THAT(refused("{links: {inter_node: {latency_seconds: 0.001}}}"),
              HasSubstr("topology.links.inter_node: is of a case with one node"));
  EXPECT_THAT(refused("{nodes: 2, links: {inter_node: {latency_seconds: -1}}}"),
              HasSubstr("topology.links.inter_node.latency_seconds"));
  EXPECT_THAT(refused("{nodes: 2, links: {between: {}}}"), HasSubstr("topology.links.between"));
}

}  // namespace
}  // namespace dettax
