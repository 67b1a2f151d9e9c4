#include "profiles/import/sqlite.h"

#include <sqlite3.h>

#include "harness/base/error.h"

namespace dettax {
namespace {

Error error_of(sqlite3* database, const std::string& name) {
  return {ErrorKind::config,
          name + ": cannot be read as an SQLite export: " + sqlite3_errmsg(database)};
}

}  // namespace

void Database::Closer::operator()(sqlite3* database) const { sqlite3_close(database); }
void Query::Closer::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

Database::Database(const std::filesystem::path& path) : name_(path.string()) {
  sqlite3* opened = nullptr;
  const int status = sqlite3_open_v2(path.c_str(), &opened, SQLITE_OPEN_READONLY, nullptr);
  database_.reset(opened);
  if (status != SQLITE_OK) throw error_of(opened, name_);
}

bool Database::has_table(const std::string& table) {
  Query query(*this, "SELECT 1 FROM sqlite_master WHERE type IN ('table', 'view') AND name = '" +
                         table + "'");
  return query.next();
}

bool Database::has_column(const std::string& table, const std::string& column) {
  Query query(*this,
              "SELECT 1 FROM pragma_table_info('" + table + "') WHERE name = '" + column + "'");
  return query.next();
}

Query::Query(Database& database, const std::string& sql) : database_(database) {
  sqlite3_stmt* prepared = nullptr;
  const int status =
      sqlite3_prepare_v2(database.database_.get(), sql.c_str(), -1, &prepared, nullptr);
  statement_.reset(prepared);
  if (status != SQLITE_OK) throw error_of(database.database_.get(), database.name_);
}

bool Query::next() {
  const int status = sqlite3_step(statement_.get());
  if (status == SQLITE_ROW) return true;
  if (status == SQLITE_DONE) return false;
  throw error_of(database_.database_.get(), database_.name_);
}

bool Query::null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

int64_t Query::integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }

std::string_view Query::text(int column) const {
  const auto* bytes = sqlite3_column_text(statement_.get(), column);
  if (bytes == nullptr) return {};
  return {reinterpret_cast<const char*>(bytes),
          static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

}  // namespace dettax
