//! Columns as Go's `text/tabwriter` aligns them.

/// Aligns the cells of lines, which end at tabs: each column is as wide as its widest cell in
/// adjacent lines that have it, and two spaces more. Text after the last tab of a line belongs to
/// no column.
pub(crate) fn align(text: &str) -> String {
    let lines: Vec<Vec<&str>> = text.split('\n').map(|line| line.split('\t').collect()).collect();
    let mut out = String::with_capacity(text.len() * 2);
    let mut writer = Writer { lines: &lines, widths: Vec::new(), out: &mut out };
    writer.format(0, lines.len());
    // The text ends with a line break, after which there is an empty line.
    out.pop();
    out
}

/// Spaces between columns.
const PADDING: usize = 2;

struct Writer<'t> {
    lines: &'t [Vec<&'t str>],
    widths: Vec<usize>,
    out: &'t mut String,
}

impl Writer<'_> {
    /// Writes lines whose columns so far have the known widths.
    fn format(&mut self, mut from: usize, to: usize) {
        let column = self.widths.len();
        let has_column = |lines: &[Vec<&str>], line: usize| {
            lines.get(line).is_some_and(|cells| column + 1 < cells.len())
        };
        let mut at = from;
        while at < to {
            if !has_column(self.lines, at) {
                at += 1;
                continue;
            }
            self.write(from, at);
            let mut end = at;
            let mut width = 0;
            while end < to && has_column(self.lines, end) {
                let cell = self.lines.get(end).and_then(|cells| cells.get(column));
                width = width.max(cell.map_or(0, |cell| cell.chars().count()) + PADDING);
                end += 1;
            }
            self.widths.push(width);
            self.format(at, end);
            self.widths.pop();
            from = end;
            at = end;
        }
        self.write(from, to);
    }

    fn write(&mut self, from: usize, to: usize) {
        for cells in self.lines.get(from..to).unwrap_or_default() {
            for (index, cell) in cells.iter().enumerate() {
                self.out.push_str(cell);
                if let Some(width) = self.widths.get(index) {
                    let missing = width.saturating_sub(cell.chars().count());
                    self.out.extend(std::iter::repeat_n(' ', missing));
                }
            }
            self.out.push('\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns() {
        for (text, expected) in [
            ("a\tb\nccc\td\n", "a    b\nccc  d\n"),
            (
                "title:\n  a:\t1\n  └─ b:\t2\n\nccccccccc:\t3\n",
                "title:\n  a:     1\n  └─ b:  2\n\nccccccccc:  3\n",
            ),
            ("a\tb\tc\naaa\tb\nd\tbbb\tc\n", "a    b  c\naaa  b\nd    bbb  c\n"),
            ("x\n", "x\n"),
        ] {
            assert_eq!(align(text), expected);
        }
    }
}
