import { z } from 'zod';
import { readSettings } from '../../../src/config/settings.ts';
import { compareRevisions, type ServiceSettings } from '../../../src/deploys/changes/index.ts';
import { type LoadedFlow, parseManifest } from '../../../src/manifest/load.ts';
import type { Finding, LiveFlow, LiveRun } from '../../../src/model/finding.ts';
import type { Json } from '../../../src/model/json.ts';
import { FLOW_ID, rules as plainRules } from '../../manifest/rules.ts';

export { FLOW_ID };

const anything = { inputs: z.record(z.string(), z.unknown()), secretInputs: ['headers.*'] };
const handlers = new Map([
  ...plainRules.handlers,
  ...['Loud', 'ForEach', 'RunFlow'].map((type) => [type, anything] as const),
]);
const rules = { ...plainRules, handlers };

export const NOW = Date.parse('2026-03-01T12:00:00Z');
/** The settings of a service that sets nothing. */
export const SETTINGS: ServiceSettings = readSettings({});
export const QUIET: LiveFlow = { runsInFlight: 0, runs: [], stepsWithHistory: [], lastRunOfStep: {} };

/** Nothing is in flight, and these steps have run. */
export function withHistory(...stepKeys: string[]): LiveFlow {
  return { ...QUIET, stepsWithHistory: stepKeys, lastRunOfStep: Object.fromEntries(stepKeys.map((key) => [key, NOW])) };
}

type Standing = 'ended' | 'waits' | 'runs' | 'due';

/** Runs in flight, by the state of their steps. */
export function inFlight(...runs: Record<string, Standing>[]): LiveFlow {
  const rows = {
    ended: ['Succeeded', false],
    waits: ['Pending', true],
    runs: ['Running', false],
    due: ['Pending', false],
  } as const;
  const live = runs.map((steps, index): LiveRun => {
    const entries = Object.entries(steps).map(([key, at]) => [key, { status: rows[at][0], isWaiting: rows[at][1] }]);
    return {
      id: `run-${index}`,
      revision: 1,
      triggerKey: 'manual',
      startedAt: NOW,
      steps: Object.fromEntries(entries),
    };
  });
  return {
    ...withHistory(...new Set(runs.flatMap((steps) => Object.keys(steps)))),
    runsInFlight: live.length,
    runs: live,
  };
}

/** A step as an author writes it, after others that must succeed. */
export const noOp = (...after: string[]) => ({
  type: 'NoOp',
  runAfter: Object.fromEntries(after.map((key) => [key, ['Succeeded']])),
});
export const step = (type: string, inputs: object, ...after: string[]) => ({ ...noOp(...after), type, inputs });

/** A manifest as an author writes it. */
export function flow(steps: object, rest: object = {}): object {
  return { id: FLOW_ID, name: 'Orders', version: '1', steps, ...rest };
}

export function load(manifest: unknown): LoadedFlow {
  const { flow: loaded, issues } = parseManifest(JSON.stringify(manifest), 'orders.json', rules);
  if (loaded === undefined) throw new Error(issues.map(({ path, message }) => `${path}: ${message}`).join('\n'));
  return loaded;
}

export function snapshot(manifest: unknown): Json {
  return load(manifest).snapshot;
}

export function compare(before: object, after: object, live: LiveFlow = QUIET): readonly Finding[] {
  return compareRevisions({ before: snapshot(before), after: snapshot(after), live, settings: SETTINGS });
}

/** `rule class` and path of each finding. */
export function verdicts(findings: readonly Finding[]): string[] {
  return findings.map((finding) => `${finding.rule} ${finding.class} ${finding.path}`);
}
