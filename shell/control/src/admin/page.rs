//! The page for people whose browser runs no scripts: what the server is doing, now. It only shows; it has
//! no form and nothing from elsewhere, and asks the browser to load it again every few seconds.

use super::model::{Nodes, Role, Status};
use std::fmt::{Display, Write};

const HEAD: &str = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
<meta http-equiv=\"refresh\" content=\"3\"><meta name=\"viewport\" content=\"width=device-width\">\
<title>Strowger</title><link rel=\"stylesheet\" href=\"/dashboard/plain.css\"></head><body>";

/// Lists that only a server has: path and what the link says.
const OF_SERVER: &[(&str, &str)] = &[
    ("/v1/bindings", "bindings"),
    ("/v1/calls", "calls"),
    ("/v1/trunks", "trunks and other targets"),
    ("/v1/refused", "refused requests"),
    ("/v1/users", "users"),
];
/// Lists that only a balancer has.
const OF_BALANCER: &[(&str, &str)] = &[("/v1/nodes", "nodes"), ("/v1/nodes/audit", "audit")];
/// What both have.
const OF_BOTH: &[(&str, &str)] = &[
    ("/v1/status", "status"),
    ("/v1/connections", "connections"),
    ("/v1/certificates", "certificates"),
    ("/metrics", "metrics"),
    ("/healthz", "alive"),
    ("/readyz", "ready"),
    ("/openapi.json", "API"),
    ("/v1/openapi.json", "API of version 1"),
];

/// The whole page; `nodes`: those of a balancer.
pub(super) fn render(status: &Status, nodes: Option<&Nodes>) -> String {
    let mut page = String::with_capacity(4096);
    page.push_str(HEAD);
    // Writing to a String cannot fail.
    let _ = write!(page, "<h1>Strowger {} is {}</h1>", Escaped(&status.version), status.state.name());
    for alarm in &status.alarms {
        let _ = write!(page, "<p class=\"alarm\" role=\"alert\">{}</p>", Escaped(alarm));
    }
    page.push_str("<table>");
    let mut row = |name: &str, value: &dyn Display| {
        let value = value.to_string();
        let _ = write!(page, "<tr><th scope=\"row\">{name}</th><td>{}</td></tr>", Escaped(&value));
    };
    row("Running for", &uptime(status.uptime_s));
    if let Role::Serve(own) = &status.role {
        row("Domains", &own.domains_text());
        row("Authentication", &own.auth_text());
        row("Users registered", &own.registered);
        row("Bindings", &own.bindings);
    }
    row("Listens on", &status.listeners.join(", "));
    row("Workers", &format_args!("{} ({})", status.workers, status.steering));
    row("Calls", &status.calls_text());
    row("Transactions", &status.transactions_text());
    row("Connections", &status.connections);
    row("Messages", &format_args!("{} received, {} sent", status.messages_received, status.messages_sent));
    if let Role::Serve(own) = &status.role {
        row("Store", &own.store_text());
        row("Overload", &own.overload);
    }
    row("Configuration", &status.config_text());
    row("Process", &status.pid);
    page.push_str("</table>");
    if let Some(nodes) = nodes {
        table_of(nodes, &mut page);
    }
    links(if status.is_balancer() { OF_BALANCER } else { OF_SERVER }, &mut page);
    page.push_str("</body></html>\n");
    page
}

/// Every path that answers to GET.
fn links(own: &[(&str, &str)], page: &mut String) {
    for (at, (path, name)) in own.iter().chain(OF_BOTH).enumerate() {
        let before = if at == 0 { "<p>" } else { " &middot; " };
        let _ = write!(page, "{before}<a href=\"{path}\">{name}</a>");
    }
    page.push_str("</p>");
}

/// The nodes of a balancer.
fn table_of(nodes: &Nodes, page: &mut String) {
    let _ = write!(page, "<h2>Nodes, by {}</h2><table><tr>", Escaped(&nodes.algorithm));
    for head in ["Node", "Weight", "Order", "Health", "Calls", "Unfinished", "Why"] {
        let _ = write!(page, "<th scope=\"col\">{head}</th>");
    }
    page.push_str("</tr>");
    for node in &nodes.items {
        let _ = write!(page, "<tr><th scope=\"row\">{}</th>", Escaped(&node.name));
        let cells: [&dyn Display; 6] = [
            &node.weight,
            &node.order.name(),
            &Escaped(&node.health),
            &node.calls,
            &node.transactions,
            &Escaped(&node.why),
        ];
        for cell in cells {
            let _ = write!(page, "<td>{cell}</td>");
        }
        page.push_str("</tr>");
    }
    page.push_str("</table>");
}

/// Seconds as people read them.
pub(crate) fn uptime(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// Text that cannot become markup.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}
