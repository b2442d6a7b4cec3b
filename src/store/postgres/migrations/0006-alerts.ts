export const alerts = {
  version: 6,
  name: 'alerts',
  compatibleFrom: 1,
  sql: `
    -- What those who tell people of failures remember; no row where nobody is told.
    CREATE TABLE sluice.alert_state (
      id integer PRIMARY KEY CHECK (id = 1),
      version bigint NOT NULL,
      state text NOT NULL
    );
    -- Runs that failed and that nobody was told of yet.
    CREATE TABLE sluice.failed_run_notices (
      seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      run_id uuid NOT NULL
    );
    -- A trigger, so that no way to end a run can forget to tell.
    CREATE FUNCTION sluice.note_failed_run() RETURNS trigger LANGUAGE plpgsql AS $body$
    BEGIN
      INSERT INTO sluice.failed_run_notices (run_id) SELECT NEW.id WHERE EXISTS (SELECT FROM sluice.alert_state);
      RETURN NULL;
    END $body$;
    CREATE TRIGGER note_failed_run AFTER UPDATE OF status ON sluice.runs FOR EACH ROW
      WHEN (NEW.status IN ('Failed', 'TimedOut') AND OLD.status = 'Running')
      EXECUTE FUNCTION sluice.note_failed_run();
  `,
};
