#include "api/cli/table.h"

#include <algorithm>
#include <ostream>
#include <utility>

#include "api/cli/text.h"

namespace svcmap::api {
namespace {

constexpr size_t kGap = 3;

// Returns the number of UTF-8 characters, not bytes.
size_t Width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

}  // namespace

Table::Table(std::vector<std::string> header, std::ostream& out)
    : out_(out), widths_(header.size(), 0) {
  Widen(header);
  held_.push_back(std::move(header));
}

void Table::Row(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = cell.empty() ? "<none>" : OneLine(cell);
  Widen(cells);
  if (printing_) return Print(cells);
  held_.push_back(std::move(cells));
  if (held_.size() > kRowsHeldBack) Finish();
}

void Table::Finish() {
  printing_ = true;
  if (held_.size() > 1) {
    for (const auto& cells : held_) Print(cells);
  }
  held_.clear();
}

void Table::Widen(const std::vector<std::string>& cells) {
  for (size_t i = 0; i < widths_.size(); ++i) widths_[i] = std::max(widths_[i], Width(cells[i]));
}

void Table::Print(const std::vector<std::string>& cells) {
  for (size_t i = 0; i + 1 < cells.size(); ++i) {
    out_ << cells[i] << std::string(widths_[i] - Width(cells[i]) + kGap, ' ');
  }
  out_ << cells.back() << '\n';
}

}  // namespace svcmap::api
