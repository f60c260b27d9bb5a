//! What somebody who misspelt a word probably meant.

/// Longer words are not compared: the work grows with the square of their length.
const LONGEST: usize = 64;

/// Of some words the one that `written` was probably meant to be: at most two edits away, and at most one
/// where `written` has no more than four letters. Case does not count.
pub fn nearest<'c>(written: &str, words: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let allowed = if written.chars().count() <= 4 { 1 } else { 2 };
    let near = words.into_iter().map(|word| (edits(written, word), word));
    near.filter(|(edits, _)| *edits <= allowed).min_by_key(|(edits, _)| *edits).map(|(_, word)| word)
}

/// Letters to insert, delete, replace, or swap with their neighbours to make one word of another.
fn edits(a: &str, b: &str) -> usize {
    let letters = |word: &str| word.chars().map(|c| c.to_ascii_lowercase()).collect::<Vec<char>>();
    let (a, b) = (letters(a), letters(b));
    if a.len() > LONGEST || b.len() > LONGEST {
        return usize::MAX;
    }
    // Three rows of the table of distances between their beginnings.
    let (mut earlier, mut above) = (Vec::new(), (0..=b.len()).collect::<Vec<usize>>());
    for (i, from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let mut best = (above[j] + usize::from(from != to)).min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *from == b[j - 1] && a[i - 1] == *to {
                best = best.min(earlier[j - 1] + 1);
            }
            row.push(best);
        }
        earlier = core::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_found_where_one_is_near() {
        let words = ["response", "request", "rrs", "optional"];
        for (written, want) in [
            ("respons", Some("response")),
            ("Reqeust", Some("request")),
            ("rsr", Some("rrs")),
            ("rtd", None),
            ("code", None),
            ("", None),
        ] {
            assert_eq!(nearest(written, words), want, "{written}");
        }
        assert_eq!(nearest(&"x".repeat(100), words), None);
    }
}
