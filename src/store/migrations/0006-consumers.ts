/** In PostgreSQL's words, as the tables before. */
export const consumers = `
  -- Who has deliveries forwarded, and how far they have come.
  CREATE TABLE sluice.consumers (
    name text COLLATE "C" PRIMARY KEY,
    -- What is forwarded; null for the deliveries of all flows, or of all triggers of the flow.
    flow_id text COLLATE "C",
    trigger_key text COLLATE "C",
    -- The last delivery that was forwarded, or an id of the time to begin at.
    delivery_id uuid NOT NULL,
    created_at bigint NOT NULL,
    used_at bigint NOT NULL,
    -- Where the run of that delivery stands in the order of commits; null where no one knows, as in a copy.
    position bigint
  ) /*sqlite: WITHOUT ROWID*/;
`;
