#include "harness/device/cuda/host/streams.h"

#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "harness/base/error.h"
#include "harness/device/cuda/launch.cuh"

namespace dettax::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Two {
  Two() : first(streams.create()), second(streams.create()) {}
  ~Two() {
    streams.destroy(first);
    streams.destroy(second);
  }
  Two(const Two&) = delete;
  Two& operator=(const Two&) = delete;
  EmulatedStreams& streams = EmulatedStreams::of_this_thread();
  CudaStream first, second;
  std::vector<int> ran;
  void put(CudaStream stream, int name) {
    enqueue_on(stream, [this, name] { ran.push_back(name); });
  }
};

TEST(Streams, RunWhenTheHostWaitsUnlessTheyAreEager) {
  Two two;
  two.put(nullptr, 0);
  two.put(two.first, 1);
  EXPECT_THAT(two.ran, ElementsAre(0, 1));
  const StreamsInOrder lazy(StreamOrder::lazy);
  two.put(two.second, 2);
  two.put(two.first, 3);
  two.put(nullptr, 4);
  EXPECT_THAT(two.ran, ElementsAre(0, 1, 4));
  two.streams.wait_for(two.first);
  two.streams.wait_for_all();
  EXPECT_THAT(two.ran, ElementsAre(0, 1, 4, 3, 2));
}

// 1 and 2 of the first stream, 3 and 4 of the second.
std::vector<int> order_of(uint64_t seed, bool with_event) {
  const StreamsInOrder random(StreamOrder::random, seed);
  Two two;
  CudaEvent event = two.streams.create_event();
  two.put(two.first, 1);
  two.streams.record(event, two.first);
  two.put(two.first, 2);
  if (with_event) two.streams.wait_on(two.second, event);
  two.streams.destroy_event(event);
  two.put(two.second, 3);
  two.put(two.second, 4);
  two.streams.wait_for_all();
  return two.ran;
}

TEST(Streams, ASeedDrawsTheOrderBetweenThemAndEventsKeepIt) {
  const auto before = [](const std::vector<int>& ran, int a, int b) {
    return std::find(ran.begin(), ran.end(), a) < std::find(ran.begin(), ran.end(), b);
  };
  bool differs = false;
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    const std::vector<int> free = order_of(seed, false);
    differs |= before(free, 3, 1);
    for (const auto& ran : {free, order_of(seed, true)}) {
      EXPECT_TRUE(before(ran, 1, 2) && before(ran, 3, 4)) << seed;
    }
    EXPECT_TRUE(before(order_of(seed, true), 1, 3)) << seed;
    EXPECT_EQ(free, order_of(seed, false));
  }
  EXPECT_TRUE(differs) << "no order ever showed the missing wait";
}

// The event is recorded a second time behind work that depends on who waits: waiting for the newest record would never end.
TEST(Streams, AWaitMeansTheRecordAtTheTimeOfTheCall) {
  for (const StreamOrder order : {StreamOrder::eager, StreamOrder::lazy, StreamOrder::random}) {
    const StreamsInOrder in_order(order, 1);
    Two two;
    CudaEvent again = two.streams.create_event();
    CudaEvent back = two.streams.create_event();
    CudaEvent never = two.streams.create_event();
    two.put(two.first, 1);
    two.streams.record(again, two.first);
    two.streams.wait_on(two.second, again);
    two.streams.wait_on(two.second, never);
    two.put(two.second, 2);
    two.streams.record(back, two.second);
    two.streams.wait_on(two.first, back);
    two.put(two.first, 3);
    two.streams.record(again, two.first);
    EXPECT_EQ(two.streams.happened(again), order == StreamOrder::eager);
    two.streams.wait_for(again);
    EXPECT_TRUE(two.streams.happened(again));
    EXPECT_THAT(two.ran, ElementsAre(1, 2, 3));
    for (CudaEvent event : {again, back, never}) two.streams.destroy_event(event);
    EXPECT_EQ(two.streams.events(), 0U);
  }
}

void add_to(int* to, int number) { *to += thread_index() == 0 ? number : 0; }

TEST(Streams, KernelsTakeTheirArgumentsByValue) {
  const StreamsInOrder lazy(StreamOrder::lazy);
  Two two;
  int sum = 1;
  int number = 2;
  launch(two.first, {1, 32}, add_to, &sum, number);
  number = 100;
  EXPECT_EQ(sum, 1);
  two.streams.wait_for(two.first);
  EXPECT_EQ(sum, 3);
  set_bytes(two.first, &sum, 0, sizeof(sum));
  copy_bytes(two.first, &number, &sum, sizeof(sum));
  EXPECT_EQ(number, 100);
  two.streams.wait_for(two.first);
  EXPECT_EQ(number, 0);
}

TEST(Streams, AFaultEndsWhatIsQueuedAndIsThrownOnce) {
  const StreamsInOrder lazy(StreamOrder::lazy);
  Two two;
  enqueue_on(two.first, [] { throw Error(ErrorKind::internal, "planted"); });
  two.put(two.first, 1);
  two.put(two.second, 2);
  two.streams.drain();
  try {
    two.streams.wait_for(two.second);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("planted"));
  }
  EXPECT_TRUE(two.ran.empty());
  two.put(two.first, 3);
  two.streams.wait_for_all();
  EXPECT_THAT(two.ran, ElementsAre(3));
}

TEST(Streams, DestroyingOneRunsWhatIsLeftInIt) {
  const StreamsInOrder lazy(StreamOrder::lazy);
  Two two;
  CudaEvent event = two.streams.create_event();
  two.put(two.first, 1);
  two.streams.record(event, two.first);
  two.streams.wait_on(two.second, event);
  two.streams.destroy(std::exchange(two.first, two.streams.create()));
  EXPECT_THAT(two.ran, ElementsAre(1));
  two.streams.wait_for_all();
  two.streams.destroy_event(event);
}

}  // namespace
}  // namespace dettax::test
