import { countedRuns } from '../../deploys/changes/revisions.ts';
import type { LiveFlow, LiveRun } from '../../model/finding.ts';
import { oncePer } from '../../model/once-per.ts';

type Place = 'past' | 'waiting' | 'running' | 'due' | 'ahead';

/**
 * The progress of runs in flight relative to a step, or to the first of several: "3 runs are past `fetch`, 1 waits in
 * `fetch`, 2 have not reached it (1 waits in `approve`)". Undefined if no run is in flight.
 */
export function whereRunsAre(live: LiveFlow, stepKeys: readonly string[]): string | undefined {
  if (live.runsInFlight === 0) return undefined;
  if (live.runs.length === 0) return `${countedRuns(live.runsInFlight)} in flight`;
  const places = new Map<Place, LiveRun[]>();
  for (const run of live.runs) {
    const place = placeOf(run, stepKeys);
    places.set(place, [...(places.get(place) ?? []), run]);
  }
  const name = stepKeys.map((key) => `\`${key}\``).join(' or ');
  const parts: string[] = [];
  for (const place of ['past', 'waiting', 'running', 'due', 'ahead'] as const) {
    const runs = places.get(place) ?? [];
    if (runs.length === 0) continue;
    const subject = parts.length === 0 ? countedRuns(runs.length) : String(runs.length);
    const object = parts.length === 0 || place !== 'ahead' ? name : 'it';
    parts.push(`${subject} ${PHRASES[place](runs.length)} ${object}${place === 'ahead' ? elsewhere(runs) : ''}`);
  }
  const isPart = live.runs.length < live.runsInFlight;
  return `${isPart ? `of the oldest ${live.runs.length} of ${countedRuns(live.runsInFlight)} in flight: ` : ''}${parts.join(', ')}`;
}

const PHRASES: Readonly<Record<Place, (runs: number) => string>> = {
  past: (runs) => (runs === 1 ? 'is past' : 'are past'),
  waiting: (runs) => (runs === 1 ? 'waits in' : 'wait in'),
  running: (runs) => (runs === 1 ? 'is in' : 'are in'),
  due: (runs) => (runs === 1 ? 'is about to start' : 'are about to start'),
  ahead: (runs) => (runs === 1 ? 'has not reached' : 'have not reached'),
};

function placeOf(run: LiveRun, stepKeys: readonly string[]): Place {
  const reached = stepKeys.flatMap((key) => stepOf(run, key) ?? []);
  if (reached.length === 0) return 'ahead';
  const open = reached.find(({ status }) => status === 'Pending' || status === 'Running');
  if (open === undefined) return 'past';
  if (open.isWaiting) return 'waiting';
  return open.status === 'Running' ? 'running' : 'due';
}

/** The places of runs that have not come so far: the steps that most of them wait in or run, three at most. */
function elsewhere(runs: readonly LiveRun[]): string {
  const counts = new Map<string, { runs: number; place: 'waiting' | 'running' | 'due'; key: string }>();
  for (const run of runs) {
    for (const { place, key } of openSteps(run)) {
      const known = counts.get(`${place} ${key}`);
      counts.set(`${place} ${key}`, { runs: (known?.runs ?? 0) + 1, place, key });
    }
  }
  const most = [...counts.values()].sort((one, other) => other.runs - one.runs).slice(0, 3);
  if (most.length === 0) return '';
  return ` (${most.map(({ runs: number, place, key }) => `${number} ${PHRASES[place](number)} \`${key}\``).join(', ')})`;
}

interface OpenStep {
  readonly place: 'waiting' | 'running' | 'due';
  readonly key: string;
}

/** Computed once for each run, because each finding asks. */
const openSteps = oncePer((run: LiveRun): readonly OpenStep[] =>
  Object.keys(run.steps).flatMap((key): OpenStep[] => {
    const place = placeOf(run, [key]);
    return place === 'past' || place === 'ahead' ? [] : [{ place, key }];
  }),
);

function stepOf(run: LiveRun, key: string): LiveRun['steps'][string] | undefined {
  return Object.hasOwn(run.steps, key) ? run.steps[key] : undefined;
}
