//! Bugs to plant in the core, to grade the checkers: a checker that finds none of them proves nothing.
//!
//! The code of each is behind `mutant!(Name)` in the core, in builds with the feature `mutants` alone.

/// Declares the bugs, each with the sentence that says what is then wrong.
macro_rules! mutants {
    ($($(#[doc = $text:literal])* $bug:ident,)*) => {
        /// A bug that can be planted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutant {
            $($(#[doc = $text])* $bug,)*
        }

        impl Mutant {
            /// Every bug.
            pub const ALL: &'static [Self] = &[$(Self::$bug,)*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$bug => stringify!($bug),)*
                }
            }

            /// What is wrong when it is planted.
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$bug => concat!($($text),*).trim_ascii(),)*
                }
            }
        }
    };
}

mutants! {
    /// The holder believes in its lease until the end itself, without the clock margin.
    NoClockMargin,
    /// A lease goes active though its term ended while its units were set up.
    NoTermRecheck,
    /// A closed lease is forgotten at once, and its ticket can be redeemed again.
    NoTombstone,
    /// A broker cuts whatever its mapper decides, covered or not.
    NoSplitCheck,
    /// A site's active leases run one margin beyond their end.
    RunsOver,
    /// A site closes its active leases one margin before their end.
    EndsEarly,
    /// A lease whose units are being set up ends a year late.
    SetupEndsLate,
    /// A guest that hopes for an extension stays until the end itself.
    HopeExtends,
    /// A receipt is for the whole term of the ticket and not for what is left of it.
    ReceiptForAll,
    /// All receipts for parts of a ticket have one number.
    SameReceiptNumber,
    /// A return that is asked for again is carried out again.
    ReturnsTwice,
    /// A modification that is asked for again is carried out again.
    ModifiesTwice,
    /// A lease counts as modified though the driver failed on a unit.
    HalfModified,
    /// After a failed modification units keep the new configuration.
    NotModifiedBack,
    /// A changed configuration is not held to the constraints of the ticket.
    ModifiedOutOfBounds,
    /// A guest asks for the old configuration again with its next change.
    OldConfigurationStays,
    /// A share is made though the stock is taken up by others.
    ShareBeyondStock,
    /// A share that is to be smaller is not changed.
    ShareKeepsItsSize,
    /// A lease keeps all of its units at its site though its extension is for fewer.
    SeamKeepsAll,
    /// A site does not let the units go that the guest named.
    VictimsIgnored,
    /// A guest uses the units that do not go on until the seam itself, without the clock margin.
    SeamWithoutMargin,
    /// A lease of which the rest came back runs to its old end at its site.
    RunsToTheOldEnd,
    /// A guest that does not know whether its lease ends earlier uses it to its old end.
    ReturnsLate,
    /// A lease that ended earlier is forgotten before its ticket has ended.
    ForgetsShortened,
    /// A close that comes while units are set up is answered and not carried out.
    CloseDuringSetupLost,
    /// A site answers a redeem before the lease is active.
    AnsweredTooSoon,
    /// A lease can be extended by who does not hold it.
    ExtendsAnybody,
    /// An extension need not begin where its lease ends.
    ExtendsWithGap,
    /// A ticket can be used and handed on.
    UsedAndHandedOn,
    /// A unit that was abandoned is not cleaned.
    AbandonedNotCleaned,
    /// A driver's answer counts in whatever epoch it was called.
    AnyEpochWillDo,
    /// The epoch of a unit does not grow for its teardown.
    EpochStaysForTeardown,
    /// A setup that ends after its lease counts for the next one.
    LateSetupCounts,
    /// A unit that could not be cleaned is taken for clean.
    DirtyIsClean,
    /// A delegation grows by a unit at each renewal.
    RenewalGrows,
    /// A renewed delegation counts beside the one it supersedes.
    RenewalCountsTwice,
    /// A ledger forgets what ended before now, not before yesterday.
    LedgerForgetsToday,
    /// Evidence leaves out the link that came last.
    EvidenceWithoutTheLast,
    /// A calendar answers for a whole term by what is free at its start.
    CalendarLooksAtStart,
    /// A credit frees the time that was used as well.
    CreditsTheWhole,
    /// A credit is acknowledged and not booked.
    CreditNotBooked,
    /// A request that comes again is taken for a new one.
    TakesRequestsTwice,
    /// The serial numbers of a broker's tickets restart.
    SerialStays,
    /// A mapper can remember any number of bytes.
    MemoWithoutBound,
    /// A repeated answer is numbered by the newest fact and not by its own.
    AnswerRenumbered,
    /// An answer to several tickets has the number of the answer to the last.
    OneNumberForTwo,
    /// A guest counts a number as used before the request is journaled.
    NumberOutsideJournal,
    /// A guest that gave up waits for an answer for a year.
    WaitsForAYear,
    /// A guest never shows its receipts.
    CreditNotOwed,
    /// Completed work stays pending.
    SettledIsOwed,
    /// A refused extension takes the ones before it along.
    DenialCostsATicket,
    /// A guest takes whatever tickets it is sent.
    GrantNotChecked,
    /// Anybody can use a ticket.
    HolderNotChecked,
    /// The signatures on a ticket are not looked at.
    SignatureNotChecked,
    /// A part of a ticket may run longer than the whole.
    TermMayLeaveParent,
    /// A group does not notice that it lost a lease.
    LossesDoNotCount,
    /// A group waits for ever for a lease without units.
    AssemblesForEver,
    /// A group that is broken keeps the leases that it has.
    SiblingsStay,
    /// A bundle is taken for a plain group.
    BundleForgotten,
    /// Of several brokers the first that holds is accepted at once.
    AcceptsEachHold,
    /// A ticket is redeemed before those of the other brokers are there.
    RedeemsBeforeAll,
    /// Tickets are waited for as long as it takes, though other brokers have sent theirs.
    AcceptsForEver,
    /// A holder hands on more of its ticket than is left.
    SplitsTwice,
    /// A part of a ticket has none of the constraints of the whole.
    SplitDropsConstraints,
    /// A holder acknowledges a receipt for a part and does not book it.
    SplitCreditNotBooked,
    /// A broker grants whatever its mapper decides, whatever the guest's quota of units.
    NoUnitQuota,
    /// What comes back still counts towards the quota of who had it.
    ReturnsStillCount,
    /// An offer can be accepted after it has lapsed.
    TakesLapsedOffers,
    /// What is held stays held until it is accepted.
    HoldsForever,
    /// One number for two delegations is no offence.
    EquivocationExcused,
    /// A broker delegates more than is left.
    DelegatesTwice,
    /// What came back of a generation is left of those before it.
    ReturnOfOneGeneration,
    /// What a broker delegated is not renewed with its own delegation.
    RenewalStops,
    /// A broker gives back what it has sold.
    ReturnsWhatIsSold,
    /// A site takes back what was handed on.
    TakesBackWhatIsSold,
    /// An operator can delegate more than there is.
    HandDelegatesTooMuch,
    /// A grant of an earlier revision is held to the last one.
    LastRevisionGranted,
    /// A broker takes the revision of a request that it may have forgotten.
    RevisionsComeBack,
    /// Anybody can recall a ticket.
    RecalledByAnybody,
    /// A recall takes what was handed on of a ticket as if nobody had it.
    RecallTakesClaimed,
    /// Tickets are redeemed whatever their recall leaves of them.
    RecallForgotten,
    /// A lease that is recalled is extended all the same.
    ExtendsRecalled,
    /// A recall takes units at once, whatever notice their ticket carries.
    NoticeIgnored,
    /// A guest lets go of recalled units only when the site takes them.
    RecallWithoutMargin,
    /// A guest goes on with units that are recalled.
    RecallOutlived,
    /// The holder of a ticket that is not redeemed is not told of its recall.
    RecallOfRightsNotTold,
    /// A guest hands on more of a kept ticket than a recall leaves of it.
    SplitsRecalled,
    /// What comes back of a ticket after its recall can be claimed again, above what the recall leaves.
    RecallIsADifference,
    /// A broker sells more of a delegation than stays by its recall.
    SellsRecalled,
    /// A site takes tickets under a delegation beyond what its recall leaves.
    LevelIgnored,
    /// The next generation of a delegation is not held down by its recall.
    LevelOfOneGeneration,
    /// A guest's driver is warned again and again of one recall.
    WarnedAgain,
    /// A guest's driver is warned of units that stay.
    WarnedOfAll,
    /// The deadline of a warning is too late.
    WarnedLate,
    /// A broker does not hand on which units a request excludes.
    ExclusionNotHandedOn,
    /// A site puts units on a lease that its ticket excludes.
    ExclusionForgotten,
    /// A broker does not look at the receipts that come with a request.
    ReceiptsOfRequestsIgnored,
    /// A message is read whatever its version.
    AnyVersionWillDo,
    /// A broker sells without a price.
    PriceNotStated,
    /// What came back of a lease costs as if it had not.
    ReturnsCostAllTheSame,
    /// What the journal says of settings is not looked at.
    SettingsForgotten,
    /// The guest's driver is given time until the end of the lease, without the clock margin.
    CallsWithoutMargin,
    /// A lease goes on with fewer units than its guest can do with, since the others were refused.
    TooFewAfterRefusal,
    /// A mapper's plan of packages is not checked.
    PlanNotChecked,
    /// Nodes that a plan holds are shown as free.
    HeldNodesAreFree,
    /// A plan that was not accepted or reported in time goes on.
    PlansNeverLapse,
    /// A plan that has ended still holds its nodes.
    EndedPlanHolds,
    /// A plan that has ended installs what it has not yet installed.
    EndedPlanInstalls,
    /// What a plan installed that is rolled back stays.
    RolledBackStays,
    /// Packages are installed before those that they depend on.
    InstallsInAnyOrder,
    /// What links have taken of an edge is planned and sold again.
    EdgeSoldTwice,
    /// A leave that drains is not hastened when its lease ends earlier.
    LeaveNotHastened,
    /// An answer to a leave that was called back or hastened counts.
    OldLeavesCount,
    /// A ticket is split though the rest of it goes back to its site.
    RestIsSplit,
    /// What was handed on of a kept ticket counts as left.
    RestIncludesParts,
    /// What went back of a kept ticket can be handed on.
    GoneIsHandedOn,
    /// What comes back of a part stays, though the rest of its ticket goes back.
    RestStaysOnce,
    /// The issuer of a kept ticket does not hear what came back of it.
    RestNotCredited,
    /// A drained unit is put on leases.
    DrainedIsFree,
    /// A unit that fails again and again is handed out again and again.
    BadUnitsStay,
    /// A failure counts in the tenancy that came after it, too.
    FailsSuccessor,
    /// A guest keeps a unit of which it was told that it failed.
    FailedUnitsStay,
    /// A guest takes a unit in a tenancy that is over.
    TakesPastTenancy,
    /// A lease that finds an overbooked stock used up fails.
    OverbookedFails,
    /// A link is cut without the tokens of its unit, and taken without them.
    TokensLeftBehind,
    /// The token of a stack is sold again while it is another's, and taken all the same.
    TokensNotChecked,
    /// A lease of a ticket that names its unit gets any unit of its type.
    AnyUnitOfStack,
    /// The token of a stack stays taken when its ticket is given back.
    TokenStays,
    /// Best-effort units go to those who do not accept a recall.
    BestEffortForAll,
    /// A late answer about a clock is taken for a clock that is behind.
    DelayIsSkew,
    /// What a guest has left counts as used.
    LeftIsUsed,
    /// A lease is redeemed and joined whatever it waits for.
    GateIgnored,
    /// Items of a request may wait for each other.
    CycleAccepted,
    /// Messages by a key that was replaced count for ever.
    RotatedKeyLingers,
    /// Messages by a revoked key count.
    RevokedKeySpeaks,
    /// Links and receipts by a revoked key count, honoured or not.
    RevokedKeyCuts,
    /// Nothing counts that a revoked key has signed, though it is honoured.
    NothingIsHonoured,
    /// What is signed with a new key leaves before the rotation is durable.
    KeyShownEarly,
    /// An order recalls no units.
    OrderRecallsNothing,
    /// The units of an order are recalled before the order is recorded.
    RecallBeforeOrder,
    /// Units are ordered of a service to which they are worth more.
    OrdersWithoutGain,
    /// An order takes units at once, whatever notice their ticket carries.
    OrderWithoutNotice,
    /// An order takes units of a service that has just got them.
    TenureIgnored,
    /// What was ordered does not count towards the budget of orders.
    BudgetNotCounted,
    /// Units that were freed for an order are given to anybody.
    FreedForAnybody,
    /// An order that is not claimed, or not taken up, stays open.
    OrdersNeverEnd,
    /// Units that are ordered of a service count as its own.
    OrderedIsHeld,
    /// A statement of a need counts though a later one has come.
    OldNeedCounts,
    /// A service of which nothing was measured of late counts as running.
    StaleStillRuns,
    /// The driver is called for a unit that several claim.
    AmbiguousIsCalled,
    /// A guest counts on a lease for longer than its site keeps it without a heartbeat.
    BelievesBeyondSilence,
    /// A guest goes on using a lease of which its site is silent.
    SilenceIsIgnored,
    /// A site ends a lease half-way through the time that it goes on without a heartbeat.
    SilentTooSoon,
    /// A request that is passed on may go as many hops further as before.
    HopsNotCounted,
    /// Who was asked for a request does not count among those that may be.
    AsksNotCounted,
    /// A broker passes a request on without the path by which it came.
    PathForgotten,
    /// A broker waits for another one longer than it has time itself.
    WaitsBeyondAnswer,
    /// A broker brings tickets that are not what was asked for.
    BroughtUnchecked,
    /// What a broker hands on counts towards the quota of its guest.
    HandedCountsForGuest,
}

/// Plants a bug in every actor that this thread drives, or weeds it out.
///
/// # Panics
/// If there is one to plant and this build has none.
pub fn activate(bug: Option<Mutant>) {
    #[cfg(feature = "mutants")]
    tenure_core::mutants::activate(bug.map(Mutant::name));
    #[cfg(not(feature = "mutants"))]
    assert_eq!(bug, None, "this build plants no bugs");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;
    use crate::root;

    #[test]
    fn each_bug_is_listed_and_has_its_place_in_the_core() {
        let mut planted = BTreeSet::new();
        let mut folders = vec![root().join("crates/core/src")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let text = fs::read_to_string(path).unwrap();
                let names =
                    text.split("mutant!(").skip(1).filter_map(|rest| rest.split(')').next());
                planted.extend(names.map(ToOwned::to_owned));
            }
        }
        let listed: BTreeSet<String> = Mutant::ALL.iter().map(|bug| bug.name().into()).collect();
        assert_eq!(planted, listed);
    }
}
