import { randomUUID } from 'node:crypto';
import { statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { expect, inject, onTestFinished } from 'vitest';
import { eventually } from '../e2e/service.ts';
import { runSql } from '../postgres/schemas.ts';
import { github, type OwnTarget, startTarget } from './target.ts';

/** A row with a separate database, which the attack, or an operator's mistake, damages. */
interface Harm {
  readonly rule: string;
  readonly attack: string;
  readonly run: () => Promise<void>;
}

const fileOf = ({ workspace }: OwnTarget) => join(workspace.folder, 'data/sluice.db');
const health = async (target: OwnTarget, of: 'live' | 'ready') =>
  (await fetch(`${target.service().url}/health/${of}`)).status;

async function expectNothingAcknowledged(target: OwnTarget): Promise<void> {
  for (let tries = 0; tries < 3; tries += 1) {
    expect(await target.send('push', github())).toMatchObject({ status: 503, reason: 'store_unavailable' });
  }
  expect([await health(target, 'live'), await health(target, 'ready')]).toEqual([200, 503]);
}

async function started(database?: Readonly<Record<string, string>>): Promise<OwnTarget> {
  const target = await startTarget(database);
  onTestFinished(() => target.close());
  expect(await target.send('push', github())).toMatchObject({ status: 200 });
  return target;
}

const cut = (what: string, sizeOf: (size: number) => number): Harm => ({
  rule: 'a malformed file is a lost file',
  attack: `${what} the database file of a running service`,
  async run() {
    const target = await started();
    const file = fileOf(target);
    truncateSync(file, sizeOf(statSync(file).size));
    await expectNothingAcknowledged(target);
  },
});

const lost = (what: string, harm: (file: string) => void): Harm => ({
  rule: 'an empty file next to a lock is no first start',
  attack: `${what} the database file of a stopped service, and starts it`,
  async run() {
    const target = await started();
    await target.service().stop('SIGTERM');
    harm(fileOf(target));
    await expect(target.restart()).rejects.toThrow(/sluice\.db cannot be opened: .*docs\/recovery\.md/);
  },
});

export const HARMS: readonly Harm[] = [
  cut('empties', () => 0),
  cut('cuts short', (size) => size / 2),
  lost('empties', (file) => truncateSync(file)),
  lost('cuts short', (file) => truncateSync(file, 100)),
  {
    rule: 'a connection that cannot write is lost, and replaced once it can',
    attack: 'makes every connection to PostgreSQL read-only for a while',
    async run() {
      const name = `unwritable_${randomUUID().replaceAll('-', '')}`;
      await runSql(`CREATE DATABASE ${name}`);
      onTestFinished(async () => void (await runSql(`DROP DATABASE ${name} WITH (FORCE)`)));
      const url = new URL(inject('postgresUrl'));
      url.pathname = name;
      const target = await started({ SLUICE_DATABASE_URL: url.href, SLUICE_DRAIN_SECONDS: '0' });
      const endSessions = () =>
        runSql('SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = $1', [name]);
      await runSql(`ALTER DATABASE ${name} SET default_transaction_read_only = on`);
      await endSessions();
      await eventually(
        () => health(target, 'ready'),
        (status) => status === 503,
      );
      await expectNothingAcknowledged(target);
      await runSql(`ALTER DATABASE ${name} RESET default_transaction_read_only`);
      const answer = await eventually(
        () => target.send('push', github()),
        ({ status }) => status !== 503,
      );
      expect(answer).toMatchObject({ status: 200 });
    },
  },
];
