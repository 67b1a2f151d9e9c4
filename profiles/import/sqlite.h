#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

namespace dettax {

// A SQLite database opened for reading. What SQLite says against it becomes an Error{config} that names the file.
class Database {
 public:
  explicit Database(const std::filesystem::path& path);

  bool has_table(const std::string& table);
  bool has_column(const std::string& table, const std::string& column);
  const std::string& name() const { return name_; }

 private:
  friend class Query;
  struct Closer {
    void operator()(sqlite3* database) const;
  };
  std::string name_;
  std::unique_ptr<sqlite3, Closer> database_;
};

// The rows of a SELECT, one at a time.
class Query {
 public:
  Query(Database& database, const std::string& sql);
  bool next();  // false behind the last row
  bool null(int column) const;
  int64_t integer(int column) const;        // 0 for NULL
  std::string_view text(int column) const;  // until the next next(); empty for NULL

 private:
  struct Closer {
    void operator()(sqlite3_stmt* statement) const;
  };
  Database& database_;
  std::unique_ptr<sqlite3_stmt, Closer> statement_;
};

}  // namespace dettax
