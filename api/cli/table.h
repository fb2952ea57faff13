// Aligned columns, as kubectl prints them, for any number of rows: the first ones are held back to
// learn the widths, later ones are printed as they come and only ever widen a column.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace svcmap::api {

class Table {
 public:
  static constexpr size_t kRowsHeldBack = 1000;

  // Nothing is printed, not even `header`, as long as there is no row.
  Table(std::vector<std::string> header, std::ostream& out);

  // As many cells as the header has. Empty ones are shown as <none>; control characters escaped.
  void Row(std::vector<std::string> cells);

  void Finish();  // Prints what is held back. Required at the end.

 private:
  void Print(const std::vector<std::string>& cells);
  void Widen(const std::vector<std::string>& cells);

  std::ostream& out_;
  std::vector<std::vector<std::string>> held_;  // The header is the first.
  std::vector<size_t> widths_;
  bool printing_ = false;
};

}  // namespace svcmap::api
