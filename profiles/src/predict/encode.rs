//! A model as bytes: a mark, a version, the content and a digest. All numbers are little-endian. Whatever the bytes are, a
//! reader gives a model that works, or an error.

use thiserror::Error;

use super::mix::{Distance, EXPERTS, Errors, Quantile, Totals};
use super::moving::{History, KEYS, Moving, OfUser, USERS, VALUES};
use super::nearest::{Nearest, Neighbour, ROWS};
use super::tree::{LEAF, Node, Tree};
use super::{Known, Predictor, Trial};
use limo_model::Digest;

const MARK: [u8; 4] = *b"LmPr";
const VERSION: u16 = 3;
/// Most bytes of a model.
pub const MOST_BYTES: usize = 10_000_000;
const MOST_TREES: usize = 64;
const MOST_NODES: usize = 4_095;

/// Reason why bytes are not a usable model.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "the messages say what each variant is")]
pub enum ModelError {
    #[error("this is not a model of the predictor of Limo")]
    Foreign,
    #[error("the model has version {found}, but this program knows only version {VERSION}: let it be trained anew")]
    Version { found: u16 },
    #[error("the model has {found} bytes, more than the limit of {MOST_BYTES}")]
    Size { found: usize },
    #[error("the model is damaged: its digest is wrong")]
    Digest,
    #[error("the model ends within {what}")]
    Short { what: &'static str },
    #[error("the model has {found} {what}, more than the limit of {limit}")]
    TooMany { what: &'static str, found: usize, limit: usize },
    #[error("the model has a value of {what} that is no finite number")]
    NotFinite { what: &'static str },
    #[error("the model has a tree whose node {node} leads nowhere")]
    Node { node: usize },
    #[error("the model goes on after its end")]
    Long,
}

struct Writer(Vec<u8>);

impl Writer {
    fn count(&mut self, count: usize) {
        // All lists have limits below 2^32.
        self.number(count as u32);
    }

    fn number(&mut self, number: u32) {
        self.0.extend(number.to_le_bytes());
    }

    fn float(&mut self, float: f32) {
        self.0.extend(float.to_le_bytes());
    }

    fn numbers(&mut self, numbers: &[u32]) {
        numbers.iter().for_each(|number| self.number(*number));
    }

    fn floats(&mut self, floats: &[f32]) {
        floats.iter().for_each(|float| self.float(*float));
    }

    fn double(&mut self, double: f64) {
        self.0.extend(double.to_le_bytes());
    }

    fn tree(&mut self, tree: &Tree) {
        self.count(tree.0.len());
        for node in &tree.0 {
            self.0.push(node.feature);
            if node.feature == LEAF {
                self.float(node.watts);
                self.float(node.duration);
            } else {
                self.float(node.threshold);
                self.number(node.left);
            }
        }
    }

    fn errors(&mut self, errors: &Errors) {
        self.numbers(&errors.counts);
        self.floats(&errors.means);
    }

    fn moving(&mut self, moving: &Moving) {
        self.numbers(&[moving.count, moving.newest, moving.errors]);
        self.floats(&[moving.watts, moving.peak, moving.duration, moving.error]);
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn bytes<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], ModelError> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(ModelError::Short { what })?;
        self.0 = rest;
        Ok(*bytes)
    }

    fn number(&mut self, what: &'static str) -> Result<u32, ModelError> {
        self.bytes(what).map(u32::from_le_bytes)
    }

    fn count(&mut self, what: &'static str, limit: usize) -> Result<usize, ModelError> {
        let found = self.number(what)? as usize;
        if found > limit { Err(ModelError::TooMany { what, found, limit }) } else { Ok(found) }
    }

    fn float(&mut self, what: &'static str) -> Result<f32, ModelError> {
        let float = f32::from_le_bytes(self.bytes(what)?);
        if float.is_finite() { Ok(float) } else { Err(ModelError::NotFinite { what }) }
    }

    fn double(&mut self, what: &'static str) -> Result<f64, ModelError> {
        let double = f64::from_le_bytes(self.bytes(what)?);
        if double.is_finite() { Ok(double) } else { Err(ModelError::NotFinite { what }) }
    }

    /// Reads a tree. Children come after their parent, so each path ends.
    fn tree(&mut self) -> Result<Tree, ModelError> {
        const WHAT: &str = "a tree";
        let count = self.count("nodes of a tree", MOST_NODES)?;
        let mut nodes = Vec::new();
        for index in 0..count {
            let [feature] = self.bytes(WHAT)?;
            let mut node = Node { feature, threshold: 0.0, left: 0, watts: 0.0, duration: 0.0 };
            if feature == LEAF {
                (node.watts, node.duration) = (self.float(WHAT)?, self.float(WHAT)?);
            } else {
                (node.threshold, node.left) = (self.float(WHAT)?, self.number(WHAT)?);
                let left = node.left as usize;
                if usize::from(feature) >= VALUES || left <= index || left >= count - 1 {
                    return Err(ModelError::Node { node: index });
                }
            }
            nodes.push(node);
        }
        if nodes.is_empty() { Err(ModelError::Node { node: 0 }) } else { Ok(Tree(nodes)) }
    }

    fn errors(&mut self) -> Result<Errors, ModelError> {
        const WHAT: &str = "the errors";
        let mut errors = Errors::default();
        for index in 0..EXPERTS {
            errors.counts[index] = self.number(WHAT)?;
        }
        for index in 0..EXPERTS {
            errors.means[index] = self.float(WHAT)?;
        }
        Ok(errors)
    }

    fn moving(&mut self) -> Result<Moving, ModelError> {
        const WHAT: &str = "the moving means";
        let (count, newest, errors) = (self.number(WHAT)?, self.number(WHAT)?, self.number(WHAT)?);
        let (watts, peak, duration) = (self.float(WHAT)?, self.float(WHAT)?, self.float(WHAT)?);
        Ok(Moving { count, newest, watts, peak, duration, error: self.float(WHAT)?, errors })
    }

    fn known(&mut self) -> Result<Known, ModelError> {
        let errors = self.errors()?;
        let [has_tree] = self.bytes("a user")?;
        Ok(Known { tree: if has_tree == 0 { None } else { Some(self.tree()?) }, errors })
    }

    fn history(&mut self) -> Result<History, ModelError> {
        const WHAT: &str = "users";
        let mut history = History { next: self.number("the moving means")?, all: self.moving()?, ..History::new() };
        for moving in history.applications.iter_mut().chain(&mut history.shapes) {
            *moving = self.moving()?;
        }
        for drift in &mut history.drifts {
            *drift = self.float("the drifts")?;
        }
        for _ in 0..self.count(WHAT, USERS)? {
            let name = self.number(WHAT)?;
            let mut user = OfUser { all: self.moving()?, ..OfUser::default() };
            for _ in 0..self.count("means of a user", KEYS)? {
                let key = self.number(WHAT)?;
                user.by_key.insert(key, self.moving()?);
            }
            history.users.insert(name, user);
        }
        Ok(history)
    }

    fn nearest(&mut self) -> Result<Nearest, ModelError> {
        const WHAT: &str = "rows of a shape";
        let mut nearest = Nearest::new();
        for slot in &mut nearest.0 {
            for _ in 0..self.count(WHAT, ROWS)? {
                slot.push(Neighbour {
                    shape: self.number(WHAT)?,
                    user: self.number(WHAT)?,
                    application: self.number(WHAT)?,
                    stem: self.number(WHAT)?,
                    queue: self.number(WHAT)?,
                    requested: self.float(WHAT)?,
                    memory: self.float(WHAT)?,
                    watts: self.float(WHAT)?,
                    duration: self.float(WHAT)?,
                });
            }
        }
        Ok(nearest)
    }

    fn trial(&mut self) -> Result<Trial, ModelError> {
        const WHAT: &str = "the trial";
        Ok(Trial {
            rows: self.number(WHAT)?,
            covered: self.number(WHAT)?,
            measured_w: self.double(WHAT)?,
            predicted_w: self.double(WHAT)?,
            error_w: self.double(WHAT)?,
            naive_error_w: self.double(WHAT)?,
            relative: self.double(WHAT)?,
            naive_relative: self.double(WHAT)?,
            nameplate_error_w: self.double(WHAT)?,
        })
    }
}

impl Predictor {
    /// Writes the model.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = Writer(MARK.to_vec());
        to.0.extend(VERSION.to_le_bytes());
        to.number(self.number);
        let trial = &self.trial;
        to.numbers(&[trial.rows, trial.covered]);
        let doubles = [trial.measured_w, trial.predicted_w, trial.error_w, trial.naive_error_w];
        let others = [trial.relative, trial.naive_relative, trial.nameplate_error_w];
        doubles.into_iter().chain(others).for_each(|double| to.double(double));
        to.errors(&self.errors);
        to.floats(&[self.quantile.0, self.distance.mean, self.totals.measured, self.totals.predicted]);
        to.number(self.distance.rows);
        to.count(self.forest.len());
        self.forest.iter().for_each(|tree| to.tree(tree));
        to.number(self.history.next);
        to.moving(&self.history.all);
        self.history.applications.iter().chain(&self.history.shapes).for_each(|moving| to.moving(moving));
        to.floats(&self.history.drifts);
        to.count(self.history.users.len());
        for (name, user) in &self.history.users {
            to.number(*name);
            to.moving(&user.all);
            to.count(user.by_key.len());
            for (key, moving) in &user.by_key {
                to.number(*key);
                to.moving(moving);
            }
        }
        to.count(self.users.len());
        for (name, user) in &self.users {
            to.number(*name);
            to.errors(&user.errors);
            to.0.push(u8::from(user.tree.is_some()));
            user.tree.iter().for_each(|tree| to.tree(tree));
        }
        for slot in &self.nearest.0 {
            to.count(slot.len());
            for row in slot {
                to.numbers(&[row.shape, row.user, row.application, row.stem, row.queue]);
                to.floats(&[row.requested, row.memory, row.watts, row.duration]);
            }
        }
        let digest = Digest::new().with(&to.0).value();
        to.0.extend(digest.to_le_bytes());
        to.0
    }

    /// Reads a model that [`Predictor::to_bytes`] wrote.
    ///
    /// # Errors
    /// [`ModelError`] if it is of another version, too large or damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ModelError> {
        let mut head = Reader(bytes);
        if head.bytes("its mark")? != MARK {
            return Err(ModelError::Foreign);
        }
        let found = u16::from_le_bytes(head.bytes("its version")?);
        if found != VERSION {
            return Err(ModelError::Version { found });
        }
        if bytes.len() > MOST_BYTES {
            return Err(ModelError::Size { found: bytes.len() });
        }
        let Some((content, digest)) = bytes.split_last_chunk() else {
            return Err(ModelError::Short { what: "its digest" });
        };
        if Digest::new().with(content).value() != u64::from_le_bytes(*digest) {
            return Err(ModelError::Digest);
        }
        let mut from = Reader(&content[content.len().min(MARK.len() + size_of::<u16>())..]);
        let model = Self::read(&mut from)?;
        if from.0.is_empty() { Ok(model) } else { Err(ModelError::Long) }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, ModelError> {
        const FOLLOWED: &str = "the factors";
        let mut model = Self::empty(from.number("its number")?);
        model.trial = from.trial()?;
        model.errors = from.errors()?;
        model.quantile = Quantile(from.float(FOLLOWED)?);
        let mean = from.float(FOLLOWED)?;
        model.totals = Totals { measured: from.float(FOLLOWED)?, predicted: from.float(FOLLOWED)? };
        model.distance = Distance { mean, rows: from.number(FOLLOWED)? };
        for _ in 0..from.count("trees", MOST_TREES)? {
            model.forest.push(from.tree()?);
        }
        model.history = from.history()?;
        for _ in 0..from.count("users with trees", USERS)? {
            let name = from.number("a user")?;
            model.users.insert(name, from.known()?);
        }
        model.nearest = from.nearest()?;
        Ok(model)
    }
}
