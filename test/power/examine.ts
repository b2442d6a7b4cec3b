import { join } from 'node:path';
import type { Database } from 'better-sqlite3';
import { verifyActivity } from '../../src/features/activity/view.ts';
import { inspectStore } from '../../src/store/offline.ts';
import { openWriter } from '../../src/store/sqlite/connection.ts';
import { openIndexes } from '../../src/store/sqlite/nonce-index.ts';
import { openPort } from '../../src/store/sqlite/port.ts';
import { storeKeys } from '../../src/store/store-keys.ts';
import type { Recording } from './recording.ts';

/** Opens a database as the service does, and reports acknowledged data that is missing. */
export async function examine(folder: string, recording: Recording, at: number): Promise<readonly string[]> {
  const path = join(folder, 'data', 'sluice.db');
  try {
    const { db, close } = openWriter(path);
    try {
      openPort(db, undefined);
      return [...damageOf(db), ...lostOf(db, recording, at), ...unsealableOf(db, path), ...(await activityOf(path))];
    } finally {
      close();
    }
  } catch (error) {
    return [error instanceof Error ? error.message : String(error)];
  }
}

function damageOf(db: Database): string[] {
  const lines = db.prepare<[], string>('PRAGMA integrity_check').pluck().all();
  return lines.filter((line) => line !== 'ok');
}

interface NonceRow {
  readonly nonce: string;
  readonly runId: string;
  readonly hash: number;
  readonly seq: number;
}

function lostOf(db: Database, { deliveries, deploys }: Recording, at: number): string[] {
  const isBefore = (told: { readonly at: number; readonly removableFrom?: number }) =>
    told.at <= at && at < (told.removableFrom ?? Number.POSITIVE_INFINITY);
  const column = (text: string) => new Set(db.prepare<[], string>(text).pluck().all());
  const runs = column('SELECT id FROM runs');
  const records = column('SELECT run_id FROM deliveries WHERE run_id IS NOT NULL');
  const versions = column('SELECT version FROM revisions');
  const { nonces: index } = openIndexes(db);
  const rows = db.prepare<[], NonceRow>('SELECT nonce, run_id AS runId, hash, seq FROM nonces').iterate();
  const names = new Map<string, NonceRow>();
  for (const row of rows) names.set(row.nonce, row);
  const lost = deliveries.filter(isBefore).flatMap(({ nonce, runId }) => {
    const row = names.get(nonce);
    const isKnown = row?.runId === runId && [...index.find(row.hash)].includes(row.seq);
    return [
      runs.has(runId) ? [] : `run ${runId} is lost`,
      records.has(runId) ? [] : `the delivery of run ${runId} is lost`,
      isKnown ? [] : `nonce ${nonce} is forgotten`,
    ].flat();
  });
  const undone = deploys.filter(isBefore).filter(({ version }) => !versions.has(version));
  return [...lost, ...undone.map(({ version }) => `the deploy of version ${version} is lost`)];
}

/** Secrets of revisions that the key next to the database cannot open. */
function unsealableOf(db: Database, path: string): string[] {
  const needs = db.prepare<[], string>('SELECT needs FROM revisions WHERE needs IS NOT NULL').pluck().all();
  const keys = storeKeys({ kind: 'sqlite', path }, { sealer: undefined });
  return needs.flatMap((text) => {
    const { sealed } = JSON.parse(text) as { readonly sealed: { readonly keyId: string } | null };
    return sealed === null || keys.find(sealed.keyId) !== undefined ? [] : 'the key of stored secrets is lost';
  });
}

async function activityOf(path: string): Promise<string[]> {
  const inspection = await inspectStore({ kind: 'sqlite', path });
  try {
    const { verdict, faults } = await verifyActivity(inspection);
    return verdict === 'broken' ? faults.map(({ message }) => `activity: ${message}`) : [];
  } finally {
    await inspection.close();
  }
}
