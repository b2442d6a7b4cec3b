export const alerts = {
  version: 16,
  name: 'alerts',
  sql: `
    -- What those who tell people of failures remember; no row where nobody is told.
    CREATE TABLE alert_state (
      id INTEGER PRIMARY KEY CHECK (id = 1),
      version INTEGER NOT NULL,
      state TEXT NOT NULL
    ) STRICT;
    -- Runs that failed and that nobody was told of yet.
    CREATE TABLE failed_run_notices (
      seq INTEGER PRIMARY KEY,
      run_id TEXT NOT NULL
    ) STRICT;
    -- A trigger, so that no way to end a run can forget to tell.
    CREATE TRIGGER note_failed_run AFTER UPDATE OF status ON runs
    WHEN NEW.status IN ('Failed', 'TimedOut') AND OLD.status = 'Running' BEGIN
      INSERT INTO failed_run_notices (run_id) SELECT NEW.id WHERE EXISTS (SELECT 1 FROM alert_state);
    END;
  `,
};
