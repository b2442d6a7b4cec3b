import type { SharedMigration } from './migration.ts';

export const slugs: SharedMigration = {
  version: 9,
  name: 'slugs',
  compatibleFrom: 1,
  sql: `
  -- Flows that had a slug, in lower case, in any revision deployed since: one that shares it has no row in routes.
  CREATE TABLE sluice.slugs (
    slug text COLLATE "C" NOT NULL,
    flow_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (slug, flow_id)
  ) /*sqlite: WITHOUT ROWID*/;
`,
};
