import { Rows, sql } from './port.ts';
import type { Verbs } from './verb.ts';

export const sessionVerbs: Verbs<'noteCredentials' | 'keepSecret'> = {
  noteCredentials: {
    access: 'write',
    changes: null,
    *decide(port, { credentials, now }) {
      const given = new Rows(credentials.map(({ id, mark }) => ({ id, mark })));
      port.later(sql`
        DELETE FROM sluice.credentials_in_force WHERE NOT EXISTS (
          SELECT 1 FROM jsonb_to_recordset(${given}) AS given (id text, mark text)
          WHERE given.id = credentials_in_force.id AND given.mark = credentials_in_force.mark)`);
      yield* port.run(sql`
        INSERT INTO sluice.credentials_in_force (id, mark, since)
        SELECT id, mark, ${now}::bigint FROM jsonb_to_recordset(${given}) AS given (id text, mark text)
        WHERE true ORDER BY id ON CONFLICT DO NOTHING`);
    },
  },
  keepSecret: {
    access: 'write',
    changes: null,
    *decide(port, { name, secret }) {
      yield* port.run(sql`
        INSERT INTO sluice.service_secrets (name, secret) VALUES (${name}, ${secret}) ON CONFLICT DO NOTHING`);
      const stored = yield* port.get<{ secret: Uint8Array }>(
        sql`SELECT secret FROM sluice.service_secrets WHERE name = ${name}`,
      );
      return new Uint8Array(stored?.secret ?? secret);
    },
  },
};
