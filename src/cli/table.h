// Rows on standard output, their columns under each other. Knows no row's meaning.
#pragma once

#include <string>
#include <vector>

namespace rex::cli {

using Row = std::vector<std::string>;

/// All rows have the cells of the first.
void print_table(const std::vector<Row>& rows);

}  // namespace rex::cli
