//! The rules of users as rows.

use call_forwarding::{Rules, When};
use rusqlite::{Connection, Row, params_from_iter};

use crate::rules::{RULE_COLUMNS, rule_texts};
use crate::user::UserName;

/// The columns, comma separated, each after `prefix`.
pub(crate) fn rule_columns(prefix: &str) -> String {
    RULE_COLUMNS.map(|column| format!("{prefix}{column}")).join(", ")
}

/// Reads the [`RULE_COLUMNS`] of a row, from column `first` on. What is not as it should be is passed over,
/// so that a row edited by hand loses that and nothing else; so is NULL.
pub(crate) fn read_rules(row: &Row<'_>, first: usize) -> rusqlite::Result<Rules> {
    let text = |at: usize| Ok::<_, rusqlite::Error>(row.get_ref(first + at)?.as_str().unwrap_or(""));
    let number = |at: usize| Ok::<_, rusqlite::Error>(row.get_ref(first + at)?.as_i64().unwrap_or(0));
    let mut rules = Rules::default();
    for (at, when) in When::ALL.into_iter().enumerate() {
        _ = rules.set_target(when, text(at)?);
    }
    let at = When::ALL.len();
    _ = rules.set_also(text(at)?.split_ascii_whitespace());
    _ = rules.set_ring_time(u16::try_from(number(at + 1)?).unwrap_or(0));
    rules.set_do_not_disturb(number(at + 2)? != 0);
    Ok(rules)
}

/// Writes the rules of a user; empty ones leave no row.
pub(crate) fn write_rules(connection: &Connection, name: &UserName, rules: &Rules) -> rusqlite::Result<()> {
    let key = [name.user().to_owned(), name.domain().to_owned()];
    if rules.is_empty() {
        let sql = "DELETE FROM user_rules WHERE username = ?1 AND domain = ?2";
        connection.prepare_cached(sql)?.execute(key)?;
        return Ok(());
    }
    let sql = format!(
        "INSERT INTO user_rules (username, domain, {}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
         ON CONFLICT (username, domain) DO UPDATE SET {}",
        rule_columns(""),
        RULE_COLUMNS.map(|column| format!("{column} = excluded.{column}")).join(", ")
    );
    // Texts of digits become numbers by the type of their column.
    let [always, busy, no_answer, unreachable, also, ring_time, quiet] = rule_texts(rules);
    let numbers = [ring_time, quiet].map(|text| if text.is_empty() { "0".to_owned() } else { text });
    let values = key.into_iter().chain([always, busy, no_answer, unreachable, also]).chain(numbers);
    connection.prepare_cached(&sql)?.execute(params_from_iter(values))?;
    Ok(())
}
