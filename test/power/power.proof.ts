import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, it, onTestFinished } from 'vitest';
import { fillNonces } from '../bench/fill-nonces.ts';
import { chanceOf } from '../chance.ts';
import { createWorkspace, FLOW_ID, getJson, noneInFlight, startService, type Workspace } from '../e2e/service.ts';
import { eventually } from '../eventually.ts';
import { type Crash, crashesOf } from './crashes.ts';
import { Disk } from './disk.ts';
import { examine } from './examine.ts';
import { LOSSES } from './losses.ts';
import { ENFORCE, manifestOf, Recorder, type Recording, send } from './recording.ts';

// A busy machine needs longer than the usual five minutes.
const LIMIT = { timeout: 1_800_000 };
const CRASHES = Number(process.env.TEST_POWER_CUTS ?? 1000);

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-power-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

interface RecorderOptions {
  readonly swallowsFlushes?: boolean;
  /** Fills its database before the first delivery. */
  readonly prepare?: (workspace: Workspace) => Promise<void>;
}

async function recorderOf(name: string, { swallowsFlushes = false, prepare }: RecorderOptions = {}) {
  const workspace = await createWorkspace();
  await workspace.writeManifest('push.json', manifestOf(1));
  await prepare?.(workspace);
  const recorder = new Recorder(workspace, { scratch: newFolder(), chance: chanceOf(name), swallowsFlushes });
  onTestFinished(() => recorder.stop('SIGKILL'));
  return recorder;
}

/** A first start, a few deliveries alone and at once, a deploy, a kill and two more starts. */
async function recordFirstStart(options: { swallowsFlushes?: boolean } = {}): Promise<Recording> {
  const recorder = await recorderOf('a first start', options);
  await recorder.start();
  await recorder.deliver({ count: 5, connections: 1 });
  await recorder.deploy(2);
  await recorder.deliver({ count: 40, connections: 8 });
  await recorder.stop('SIGKILL');
  await recorder.start();
  await recorder.deliver({ count: 5, connections: 1 });
  await noneInFlight(recorder.service);
  await recorder.stop('SIGTERM');
  await recorder.start();
  await recorder.deliver({ count: 5, connections: 1 });
  await recorder.stop('SIGTERM');
  return recorder.finish();
}

/** Bursts that make the log restart, deploys meanwhile, a pause, a kill, and two more starts. */
async function recordLoad(): Promise<Recording> {
  const recorder = await recorderOf('load');
  await recorder.start();
  const deploys = async () => {
    await recorder.deploy(2);
    await recorder.deploy(3);
  };
  await Promise.all([recorder.deliver({ count: 300, connections: 16 }), deploys()]);
  await recorder.deliver({ count: 20, connections: 1 });
  await noneInFlight(recorder.service);
  await recorder.deliver({ count: 400, connections: 16 });
  await recorder.stop('SIGKILL');
  await recorder.start();
  await recorder.deliver({ count: 100, connections: 4 });
  await noneInFlight(recorder.service);
  await recorder.stop('SIGTERM');
  return recorder.finish();
}

const runsOf = ({ service }: Recorder) => getJson<{ id: string }[]>(`${service.url}/flows/api/runs?take=500`);

/** Removes data that is forty days old while new deliveries come. */
async function recordRemoval(): Promise<Recording> {
  const recorder = await recorderOf('removal');
  await recorder.start();
  await recorder.deliver({ count: 200, connections: 16 });
  await noneInFlight(recorder.service);
  const old = new Set((await runsOf(recorder)).map(({ id }) => id));
  await recorder.stop('SIGTERM');
  await recorder.startLater(40);
  await recorder.deliver({ count: 200, connections: 8 });
  await eventually(
    () => runsOf(recorder),
    (runs) => runs.every(({ id }) => !old.has(id)),
  );
  await recorder.deliver({ count: 20, connections: 1 });
  await recorder.stop('SIGKILL');
  return recorder.finish();
}

/** With so many names waiting in memory, the next ones start a round of their index. */
async function recordIndexing(): Promise<Recording> {
  const prepare = async (workspace: Workspace) => {
    const service = await startService(workspace, ENFORCE);
    await service.stop('SIGTERM');
    const file = join(workspace.folder, 'data/sluice.db');
    fillNonces(file, { flowId: FLOW_ID, triggerKey: 'github' }, WAITING_NAMES, { isIndexed: false });
  };
  const recorder = await recorderOf('indexing', { prepare });
  await recorder.start();
  await recorder.deliver({ count: 200, connections: 16 });
  await recorder.stop('SIGKILL');
  const recording = recorder.finish();
  const db = new Database(join(recording.folder, 'data/sluice.db'), { readonly: true });
  expect(db.prepare('SELECT count(*) FROM nonce_index').pluck().get()).toBeGreaterThan(0);
  db.close();
  return recording;
}

/** The next name starts a round: `TAIL_SIZES` of the index. */
const WAITING_NAMES = 65_536;

/** The journal is complete: replayed without a power cut, it gives the files that the service left. */
function expectComplete(recording: Recording): void {
  const disk = new Disk(recording.before);
  for (const entry of recording.entries) disk.apply(entry);
  const folder = newFolder();
  disk.writeAfter(
    { lossOf: () => LOSSES['all is left'], isNameLeft: () => true, chance: chanceOf('complete') },
    folder,
  );
  const filesOf = (path: string) => readdirSync(join(path, 'data')).sort();
  expect(filesOf(folder)).toEqual(filesOf(recording.folder));
  for (const name of filesOf(folder)) {
    const [replayed, left] = [folder, recording.folder].map((path) => readFileSync(join(path, 'data', name)));
    expect(left !== undefined && replayed?.equals(left), name).toBe(true);
  }
}

interface Attempt {
  readonly name: string;
  readonly count: number;
  /** The number of crashes after which the service is started. */
  readonly starts?: number;
}

/** The losses at so many power cuts; cuts without loss are left out. */
async function lossesOf(recording: Recording, { name, count, starts = 0 }: Attempt): Promise<readonly string[]> {
  const chance = chanceOf(name);
  const startEvery = starts === 0 ? Number.POSITIVE_INFINITY : Math.ceil(count / starts);
  const told: string[] = [];
  let crashes = 0;
  for (const crash of crashesOf(recording, { count, chance })) {
    crashes += 1;
    const folder = newFolder();
    crash.writeTo(folder);
    const faults = [...(await examine(folder, recording, crash.at))];
    if (faults.length === 0 && crashes % startEvery === 0) await startOn(folder, { recording, crash });
    rmSync(folder, { recursive: true });
    if (faults.length > 0) told.push(`${crash.about}: ${faults.slice(0, 3).join('; ')} (of ${faults.length})`);
  }
  expect(crashes).toBe(count);
  return told;
}

/** The service itself continues: it refuses acknowledged deliveries, ends their runs, and accepts new ones. */
async function startOn(folder: string, { recording, crash }: { recording: Recording; crash: Crash }): Promise<void> {
  const service = await startService({ folder }, ENFORCE);
  try {
    const known = recording.deliveries.filter(({ at }) => at <= crash.at).slice(-20);
    for (const { nonce } of known) expect((await send(service, nonce)).status, crash.about).toBe(409);
    expect((await send(service, 'after the power cut')).status, crash.about).toBe(200);
    await noneInFlight(service);
    for (const { runId } of known) {
      const run = await getJson<{ status: string }>(`${service.url}/flows/api/runs/${runId}`);
      expect(run.status, crash.about).toBe('Succeeded');
    }
  } finally {
    await service.stop('SIGTERM');
  }
}

/** How often the log restarted from its beginning. */
function restartsOf({ entries }: Recording): number {
  return entries.filter((entry) => entry.kind === 'written' && entry.at === 0 && entry.bytes.length === 32).length;
}

const FIRST_STARTS = Math.round(CRASHES / 4);
const INDEXINGS = Math.round(CRASHES / 20);

it(`loses nothing that it acknowledged at ${FIRST_STARTS} power cuts around a first start`, LIMIT, async () => {
  const recording = await recordFirstStart();
  expectComplete(recording);
  expect(await lossesOf(recording, { name: 'first start', count: FIRST_STARTS, starts: 3 })).toEqual([]);
});

it(`loses nothing that it acknowledged at ${CRASHES - FIRST_STARTS} power cuts under load`, LIMIT, async () => {
  const recording = await recordLoad();
  expectComplete(recording);
  // One for each of the two lives, and those after checkpoints.
  expect(restartsOf(recording)).toBeGreaterThan(2);
  expect(await lossesOf(recording, { name: 'load', count: CRASHES - FIRST_STARTS, starts: 4 })).toEqual([]);
});

it(`loses nothing that it acknowledged at ${FIRST_STARTS} power cuts while old runs are removed`, LIMIT, async () => {
  const recording = await recordRemoval();
  expect(await lossesOf(recording, { name: 'removal', count: FIRST_STARTS })).toEqual([]);
});

it(`loses nothing that it acknowledged at ${INDEXINGS} power cuts while nonces are indexed`, LIMIT, async () => {
  const recording = await recordIndexing();
  expect(await lossesOf(recording, { name: 'indexing', count: INDEXINGS })).toEqual([]);
});

it('sees that a service whose flushes do nothing loses deliveries', LIMIT, async () => {
  const recording = await recordFirstStart({ swallowsFlushes: true });
  const lost = await lossesOf(recording, { name: 'swallowed', count: 40 });
  expect(lost.length).toBeGreaterThan(0);
});
