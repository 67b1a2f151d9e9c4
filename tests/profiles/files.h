#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

namespace dettax {

// A folder that goes away with the test.
class TestFolder {
 public:
  TestFolder() {
    static int number = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("dettax_profiles_" + std::to_string(getpid()) + "_" + std::to_string(number++));
    std::filesystem::create_directories(path_);
  }
  TestFolder(const TestFolder&) = delete;
  ~TestFolder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

  std::filesystem::path write(const std::string& name, std::string_view text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return path_ / name;
  }
  std::filesystem::path write_gzip(const std::string& name, std::string_view text) const {
    gzFile file = gzopen((path_ / name).c_str(), "wb1");
    EXPECT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())),
              static_cast<int>(text.size()));
    gzclose(file);
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace dettax
