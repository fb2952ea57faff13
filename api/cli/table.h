// Prints aligned columns, as kubectl does, for any number of rows. The first kRowsHeldBack rows are
// buffered to compute the column widths. Later rows are printed immediately, with columns that are
// at least as wide.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace svcmap::api {

class Table {
 public:
  static constexpr size_t kRowsHeldBack = 1000;

  // The header is printed only if there is at least one row. Shortens the widest cells so that
  // lines have at most `columns` characters, unless `columns` is 0 or the cells would become too
  // short. Cells of the column NAME are shortened less, because other commands need the names, and
  // in the middle, because names often differ at their ends.
  Table(std::vector<std::string> header, std::ostream& out, size_t columns = 0);

  // Adds a row with as many cells as the header. Prints an empty cell as <none> and escapes control
  // characters.
  void Row(std::vector<std::string> cells);

  void Finish();  // Prints the buffered rows. Must be called after the last row.

 private:
  void Print(const std::vector<std::string>& cells);
  void Widen(const std::vector<std::string>& cells);
  void Fit();

  std::ostream& out_;
  const size_t columns_;
  std::vector<std::vector<std::string>> held_;  // Buffered rows, starting with the header.
  std::vector<size_t> widths_;
  std::vector<size_t> minimum_widths_;  // Widths of the header.
  std::vector<bool> is_name_;           // Whether the cells of the column are names.
  bool printing_ = false;
};

}  // namespace svcmap::api
