//! Layout of `lq top`: the draw in its band above, nodes in the middle, the queue below. Colour only repeats the text.

use limo_client::{
    Align, Clock, Room, Screen, Table, gauge, limits_to_come, marked, mode_in_words, plain, price_in_words,
};
use limo_model::{Band, Meter, Power};
use limo_proto::{NodeReport, Status};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Paragraph, Sparkline};

use super::state::{STEP, Top};
use crate::args::ViewArgs;
use crate::columns::{Usual, reason, table};

const COLUMNS: Usual =
    Usual { brief: &["jobid", "name", "user", "st", "time", "cores", "nodes(unit)", "reason"], long: &[] };

/// Height of the curve of the draw, in lines.
const CURVE: u16 = 4;

/// Width of the scale on the left of the curve, in columns.
const SCALE: u16 = 11;

/// Height of the screen from which on blank lines separate the parts.
const ROOMY: u16 = 30;

pub fn draw(frame: &mut Frame, top: &mut Top, clock: &Clock) {
    let facts = facts(top, clock);
    let gap = u16::from(frame.area().height >= ROOMY);
    let heights = [
        Constraint::Length(1 + gap),
        Constraint::Length(u16::try_from(facts.len()).unwrap_or(u16::MAX) + gap),
        Constraint::Length(CURVE + gap),
        Constraint::Length(nodes_height(top, frame.area().height) + gap),
        Constraint::Min(2),
        Constraint::Length(1),
        Constraint::Length(1),
    ];
    let [head, now, curve, nodes, jobs, detail, keys] = Layout::vertical(heights).areas(frame.area());
    frame.render_widget(head_line(top, clock, head.width), head);
    frame.render_widget(Paragraph::new(Text::from(facts)), now);
    draw_curve(frame, top, Rect { height: curve.height.min(CURVE), ..curve });
    draw_nodes(frame, top, Rect { height: nodes.height.saturating_sub(gap), ..nodes });
    let about = draw_jobs(frame, top, clock, jobs);
    let about = match &top.away {
        Some((_, why)) => format!("away: {}", plain(why)),
        None => about,
    };
    frame.render_widget(Paragraph::new(about), detail);
    frame.render_widget(keys_line(top), keys);
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn head_line(top: &Top, clock: &Clock, width: u16) -> Paragraph<'static> {
    let facts = match (&top.away, &top.seen) {
        (Some((since, _)), _) => format!("AWAY since {}", clock.show_full(*since)),
        (None, None) => "asking".to_owned(),
        (None, Some(seen)) => {
            let Status { policy, waiting, running, nodes_up, nodes, .. } = &seen.status;
            format!("policy {policy}  {running} running, {waiting} waiting  {nodes_up} of {nodes} nodes up")
        }
    };
    let left = format!("{}  {facts}", plain(&top.address));
    let now = clock.show_full(clock.now());
    // The date is shown only if it fits.
    let right =
        if usize::from(width) > left.chars().count() + now.len() { &now } else { now.rsplit(' ').next().unwrap_or("") };
    let room = usize::from(width).saturating_sub(right.len() + 1);
    let left: String = left.chars().take(room).collect();
    let style = if top.away.is_some() { bold().fg(Color::Red) } else { bold() };
    Paragraph::new(format!("{left:room$} {right}")).style(style)
}

/// Formats the draw, the band, mode and price, one a line.
fn facts(top: &Top, clock: &Clock) -> Vec<Line<'static>> {
    let Some(seen) = &top.seen else { return Vec::new() };
    let status = &seen.status;
    let draw = marked(status.draw, status.emulated);
    let outside = status.draw > status.band.high() || status.draw < status.band.low();
    let band = gauge(status.draw, status.band, false) + &limits_to_come(status, clock);
    let mut lines = vec![
        Line::raw(format!("draw   {draw} ({} of it idle)", status.idle)),
        Line::raw(format!("band   {band}")).style(if outside { Style::new().fg(Color::Red) } else { Style::new() }),
        Line::raw(format!("mode   {}", mode_in_words(status))),
        Line::raw(format!("price  {}", price_in_words(status, clock))),
    ];
    if let Some(trouble) = &status.trouble {
        let text = format!("TROUBLE  new jobs are refused: {}", plain(trouble));
        lines.push(Line::raw(text).style(bold().fg(Color::Red)));
    }
    lines
}

/// Draws the curve of the last minutes, from zero to the highest relevant value, with the limits in force as lines.
fn draw_curve(frame: &mut Frame, top: &Top, area: Rect) {
    let [scale, curve] = Layout::horizontal([Constraint::Length(SCALE), Constraint::Min(1)]).areas(area);
    let past = top.past(usize::from(curve.width));
    let shown = past.iter().flatten().copied().max().unwrap_or(Power::ZERO);
    let limits = top.seen.as_ref().map_or(Vec::new(), |seen| limits(seen.status.band));
    let highest = limits.iter().copied().fold(shown, Power::max);
    let bars = past.iter().map(|mean| mean.map(|mean| u64::try_from(mean.mw()).unwrap_or(0)));
    let most = u64::try_from(highest.mw()).unwrap_or(0).max(1);
    frame.render_widget(Sparkline::default().data(bars.collect::<Vec<_>>()).max(most), curve);
    let mut labels = [highest.to_string(), String::new(), String::new(), Power::ZERO.to_string()];
    for limit in limits {
        let line = line_of(limit, highest);
        draw_limit(frame, curve, line);
        // The first and the last line already have labels.
        if let Some(label) = labels.get_mut(line).filter(|label| label.is_empty()) {
            *label = limit.to_string();
        }
    }
    if let Some(label) = labels.iter_mut().rev().find(|label| label.is_empty()) {
        *label = format!("{} min", i64::try_from(past.len()).unwrap_or(0) * STEP.ms() / 60_000);
    }
    let width = usize::from(SCALE) - 1;
    let labels: Vec<Line> = labels.iter().map(|label| Line::raw(format!("{label:>width$}"))).collect();
    frame.render_widget(Paragraph::new(labels), scale);
}

/// Returns the limits in force.
fn limits(band: Band) -> Vec<Power> {
    let high = Some(band.high()).filter(|high| !high.is_unlimited());
    let low = Some(band.low()).filter(|low| !low.is_zero());
    high.into_iter().chain(low).collect()
}

/// Returns the line of the curve, from its top, in which this draw ends.
fn line_of(draw: Power, highest: Power) -> usize {
    let lines = i128::from(CURVE);
    let below = i128::from(draw.mw()) * lines / i128::from(highest.mw().max(1));
    usize::try_from((lines - 1 - below).clamp(0, lines - 1)).unwrap_or(0)
}

/// Draws a limit wherever no bar hides it.
fn draw_limit(frame: &mut Frame, curve: Rect, line: usize) {
    let Some(y) = u16::try_from(line).ok().filter(|line| *line < curve.height).map(|line| curve.y + line) else {
        return;
    };
    for x in curve.x..curve.right() {
        if let Some(cell) = frame.buffer_mut().cell_mut((x, y)).filter(|cell| cell.symbol() == " ") {
            cell.set_char('┄');
        }
    }
}

/// Returns the height of the nodes' table: titles and a line each, up to a third of the screen.
fn nodes_height(top: &Top, screen: u16) -> u16 {
    let nodes = top.seen.as_ref().map_or(0, |seen| seen.nodes.len());
    u16::try_from(nodes + 1).unwrap_or(u16::MAX).min(screen / 3)
}

fn draw_nodes(frame: &mut Frame, top: &Top, area: Rect) {
    let Some(seen) = &top.seen else { return };
    let mut table = Table::new(&[
        ("NODE", Align::Left),
        ("STATE", Align::Left),
        ("DRAW", Align::Figure),
        ("IDLE", Align::Figure),
        ("CORES", Align::Right),
        ("CAPS", Align::Left),
        ("JOBS", Align::Left),
    ]);
    table.room(0, Room::GivesWay(8));
    table.room(5, Room::GivesWay(8));
    table.room(6, Room::GivesWay(8));
    let titles = 1;
    let room = usize::from(area.height).saturating_sub(titles);
    let all = seen.nodes.len();
    let shown = if all > room { room.saturating_sub(1) } else { all };
    for node in &seen.nodes[..shown] {
        table.row(node_cells(node));
    }
    let screen = Screen { width: Some(usize::from(area.width)), ..Screen::PLAIN };
    let mut lines = text_lines(&table.render_for(&screen));
    if all > shown {
        lines.push(Line::raw(format!("... and {} more nodes", all - shown)));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn node_cells(node: &NodeReport) -> [String; 7] {
    let how = match (node.measured, node.meter == Meter::Emulated) {
        (true, false) => "",
        (true, true) => " emulated",
        (false, _) => " estimated",
    };
    let sum = |of: fn(&limo_proto::UnitReport) -> u32| node.units.iter().map(of).sum::<u32>();
    let caps: Vec<String> = node.units.iter().filter_map(|unit| Some(format!("{} {}", unit.name, unit.cap?))).collect();
    let mut jobs: Vec<u64> = node.units.iter().flat_map(|unit| unit.jobs.iter().map(|job| job.0)).collect();
    jobs.sort_unstable();
    jobs.dedup();
    let dash = |list: Vec<String>| if list.is_empty() { "-".to_owned() } else { list.join(",") };
    [
        node.name.clone(),
        node.state_in_words(),
        format!("{}{how}", node.draw),
        node.idle.to_string(),
        format!("{}/{}", sum(|unit| unit.cores_used), sum(|unit| unit.cores)),
        dash(caps),
        dash(jobs.iter().map(u64::to_string).collect()),
    ]
}

/// Draws the queue, and the full line of the selected job.
fn draw_jobs(frame: &mut Frame, top: &mut Top, clock: &Clock, area: Rect) -> String {
    let jobs = top.jobs(clock);
    let room = usize::from(area.height).saturating_sub(1).max(1);
    top.page = room;
    top.at = top.at.min(jobs.len().saturating_sub(1));
    // The selected row stays visible: it is the last row when it moves down.
    let first = (top.at + 1).saturating_sub(room);
    let shown = &jobs[first..jobs.len().min(first + room)];
    let screen = Screen { width: Some(usize::from(area.width)), ..Screen::PLAIN };
    let mut lines = text_lines(&table(shown, &ViewArgs::default(), &COLUMNS, (clock, &screen)));
    let marked = top.at - first + 1;
    if let Some(line) = lines.get_mut(marked).filter(|_| !shown.is_empty()) {
        *line = line.clone().style(Style::new().add_modifier(Modifier::REVERSED));
    }
    frame.render_widget(Paragraph::new(lines), area);
    let about = jobs.get(top.at).map(|job| (job.job, plain(&job.command), reason(job, clock)));
    about.map_or_else(String::new, |(id, command, reason)| match reason.as_str() {
        "" => format!("job {id}: {command}"),
        reason => format!("job {id} waits: {}", plain(reason)),
    })
}

/// Converts the lines of a table; the first has the titles.
fn text_lines(text: &str) -> Vec<Line<'static>> {
    let line = |(index, line): (usize, &str)| {
        let line = Line::raw(line.to_owned());
        if index == 0 { line.style(bold()) } else { line }
    };
    text.lines().enumerate().map(line).collect()
}

fn keys_line(top: &Top) -> Paragraph<'static> {
    let cut = top.seen.as_ref().filter(|seen| seen.more);
    let cut = cut.map_or_else(String::new, |seen| format!("  (first {})", seen.jobs.len()));
    let text = match (&top.typing, top.user.is_empty()) {
        (Some(_), _) => format!("user: {}_  (Enter accepts, Esc cancels)", plain(&top.user)),
        (None, true) => format!("q quit  up/down scroll  s sort: {}  r reverse  u user: all", top.order_in_words()),
        (None, false) => {
            let (order, user) = (top.order_in_words(), plain(&top.user));
            format!("q quit  up/down scroll  s sort: {order}  r reverse  u user: {user}...")
        }
    };
    Paragraph::new(text + &cut).style(bold())
}
