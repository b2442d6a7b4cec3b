export const learnedKeys = {
  version: 5,
  name: 'learned keys',
  sql: `
    CREATE TABLE learned_keys (
      flow_id TEXT NOT NULL,
      trigger_key TEXT NOT NULL,
      scheme TEXT NOT NULL,
      secret BLOB NOT NULL,
      sealed_with TEXT,
      learned_at INTEGER NOT NULL,
      PRIMARY KEY (flow_id, trigger_key)
    ) WITHOUT ROWID;
  `,
};
