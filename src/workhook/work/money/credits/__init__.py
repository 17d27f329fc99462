"""The ledger of task credits."""
