#include "exporters/utc.h"

#include <gtest/gtest.h>

namespace dettax {
namespace {

TEST(Utc, CountsSecondsSince1970) {
  EXPECT_EQ(seconds_of_utc("1970-01-01T00:00:00Z"), 0.0);
  EXPECT_EQ(seconds_of_utc("2026-03-01T12:00:00Z"), 1772366400.0);
  EXPECT_EQ(seconds_of_utc("2024-02-29T23:59:59Z"), 1709251199.0);
}

TEST(Utc, RefusesEverythingElse) {
  for (const char* text : {"", "2026-03-01", "2026-02-30T00:00:00Z", "2026-13-01T00:00:00Z",
                           "2026-03-01T24:00:00Z", "2026-03-01T12:00:00", "2026-03-01T12:00:00Z ",
                           "x026-03-01T12:00:00Z", "2026--3-01T12:00:00Z"})
    EXPECT_FALSE(seconds_of_utc(text).has_value()) << text;
}

}  // namespace
}  // namespace dettax
