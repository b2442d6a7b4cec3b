export const instances = {
  version: 3,
  name: 'instances',
  compatibleFrom: 1,
  sql: `
    -- Tells processes of one name from each other. The release before this one leaves it empty.
    ALTER TABLE sluice.replicas ADD COLUMN instance text NOT NULL DEFAULT '';

    -- When the cluster last removed what is old; one row.
    CREATE TABLE sluice.housekeeping (
      is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
      began_at timestamptz NOT NULL
    );
    INSERT INTO sluice.housekeeping (began_at) VALUES ('-infinity');
  `,
};
