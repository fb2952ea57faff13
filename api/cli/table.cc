#include "api/cli/table.h"

#include <algorithm>
#include <ostream>
#include <utility>

#include "api/cli/text.h"

namespace svcmap::api {
namespace {

constexpr size_t kGap = 2;
constexpr size_t kShortestCell = 9;  // The length of "ClusterIP".

}  // namespace

Table::Table(std::vector<std::string> header, std::ostream& out, size_t columns)
    : out_(out), columns_(columns), widths_(header.size(), 0) {
  Widen(header);
  minimum_widths_ = widths_;
  for (const std::string& heading : header) is_name_.push_back(heading == "NAME");
  held_.push_back(std::move(header));
}

void Table::Row(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = cell.empty() ? "<none>" : OneLine(cell);
  if (!printing_ || columns_ == 0) Widen(cells);
  if (printing_) return Print(cells);
  held_.push_back(std::move(cells));
  if (held_.size() > kRowsHeldBack) Finish();
}

void Table::Finish() {
  if (!printing_ && columns_ > 0) Fit();
  printing_ = true;
  if (held_.size() > 1) {
    for (const auto& cells : held_) Print(cells);
  }
  held_.clear();
}

void Table::Widen(const std::vector<std::string>& cells) {
  for (size_t i = 0; i < widths_.size(); ++i) widths_[i] = std::max(widths_[i], Width(cells[i]));
}

void Table::Fit() {
  size_t all = kGap * (widths_.size() - 1);
  for (const size_t width : widths_) all += width;
  // The widest column is shortened next. A name counts half, because other commands need the names.
  const auto order = [this](size_t i) { return is_name_[i] ? widths_[i] / 2 : widths_[i]; };
  for (; all > columns_; --all) {
    size_t next = widths_.size();
    for (size_t i = 0; i < widths_.size(); ++i) {
      if (widths_[i] <= std::max(minimum_widths_[i], kShortestCell)) continue;
      if (next == widths_.size() || order(i) >= order(next)) next = i;
    }
    if (next == widths_.size()) return;
    --widths_[next];
  }
}

void Table::Print(const std::vector<std::string>& cells) {
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string cell = columns_ == 0 ? cells[i]
                             : is_name_[i] ? ShortenMiddle(cells[i], widths_[i])
                                           : Shorten(cells[i], widths_[i]);
    const bool last = i + 1 == cells.size();
    out_ << cell << (last ? "\n" : std::string(widths_[i] - Width(cell) + kGap, ' '));
  }
}

}  // namespace svcmap::api
