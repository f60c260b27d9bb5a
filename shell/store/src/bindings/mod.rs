//! Tests of the location service, its log and the table of SQLite together. Clocks and rounds are moved by
//! hand.

mod crashes;
mod histories;
mod kept;
mod losses;
mod tests;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use location::{
    Clock, Cursor, DAMAGED, Health, INTERVAL, Keeper, LoadReport, LocationLimits, LogLimits, Mover,
    OnFailure, Sealed, SharedLocation, Steps, Writer, finish,
};
use sip_registrar::{Change, Record};
use wire::Time;

use crate::source::forget_removed;
use crate::sqlite::database::{Database, Patience};
