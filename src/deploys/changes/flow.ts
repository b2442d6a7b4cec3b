import type { Manifest } from '../../manifest/schema.ts';
import type { Finding, LiveFlow } from '../../model/finding.ts';
import { type Change, type ChangeRule, findingAt } from './change.ts';
import { count } from './live-runs.ts';
import { stepSlotsChanged } from './step-fields.ts';

const idChanged: ChangeRule = ({ before, after, live }) =>
  before.id === after.id ? [] : [flowIdChanged({ replaced: before, next: after, live })];

/** The finding about a manifest that replaces a deployed flow under a new id. */
export function flowIdChanged(input: {
  /** The flow whose manifest is gone. */
  readonly replaced: { readonly id: string; readonly name: string };
  readonly next: { readonly id: string; readonly name: string };
  /** What `findReplaced` told them by; absent where one manifest was compared with the other. */
  readonly because?: 'slug' | 'name' | undefined;
  readonly live: LiveFlow;
}): Finding {
  const { replaced, next, because, live } = input;
  const reason = because === undefined ? '' : `, which has the same ${because}`;
  return findingAt(['id'], {
    rule: 'flow-id-changed',
    class: 'breaking',
    before: replaced.id,
    after: next.id,
    message: `The manifest has the id ${next.id}; "${replaced.name}"${reason}, is deployed as ${replaced.id}.`,
    consequence:
      'What is stored belongs to the id: runs and the state of schedules stay with the old id. So the new flow starts ' +
      'without history and knows no paused schedules. Idempotency keys and accepted nonces go along with a slug that it ' +
      'takes over, and with nothing else. Runs in flight continue under the old id.',
    advice: 'Keep the id; or make a clean break on purpose, as the recipe says.',
    live: live.runsInFlight === 0 ? undefined : `${count(live.runsInFlight)} of the old id in flight`,
    recipe: flowIdRecipe(replaced, next),
  });
}

/** Takes the id back. A clean break, if one is meant, needs two manifests, so a patch cannot express it. */
function flowIdRecipe(replaced: { id: string; name: string }, next: { id: string; name: string }): Finding['recipe'] {
  return {
    title: 'Keep the id, or make a clean break',
    steps: [
      `To keep the flow, give the manifest its old id ${replaced.id} again: the patch does that.`,
      `For a clean break, restore the old manifest with the id ${replaced.id}, and deploy this one next to it with the ` +
        `new id ${next.id} and with a name and slugs of its own.`,
      `Disable the old flow: POST /flows/api/flows/${replaced.id}/disable. Its history stays readable.`,
      'Move the triggers: point publishers to the new slug or id, and take cron triggers out of the old manifest.',
    ],
    patch: { id: replaced.id },
  };
}

/** What identifies a flow, to tell whether another one replaces it. */
interface FlowIdentity {
  readonly id: string;
  readonly name: string;
  readonly slugs: readonly string[];
}

/**
 * The deployed flow that a manifest with an unknown id replaces: one that no manifest has any more, and
 * that has a slug or, failing that, the name of this one. A flow whose id is deployed replaces nothing.
 */
export function findReplaced(input: {
  next: FlowIdentity;
  deployed: readonly FlowIdentity[];
  goneIds: ReadonlySet<string>;
}): { id: string; because: 'slug' | 'name' } | undefined {
  const { next, deployed, goneIds } = input;
  if (deployed.some(({ id }) => id === next.id)) return undefined;
  const gone = deployed.filter(({ id }) => goneIds.has(id));
  // Slugs are matched in any case, as the route matches them.
  const slugs = new Set(next.slugs.map((slug) => slug.toLowerCase()));
  const bySlug = gone.find((flow) => flow.slugs.some((slug) => slugs.has(slug.toLowerCase())));
  if (bySlug !== undefined) return { id: bySlug.id, because: 'slug' };
  const byName = gone.find(({ name }) => name === next.name);
  return byName && { id: byName.id, because: 'name' };
}

type FieldTexts = Pick<Finding, 'rule' | 'message' | 'consequence'> & Partial<Pick<Finding, 'class'>>;

/** Every field of a manifest besides its id, triggers and steps, which have rules of their own. */
const FIELDS: Readonly<Record<Exclude<keyof Manifest, 'id' | 'triggers' | 'steps'>, (change: Change) => FieldTexts>> = {
  timeoutSeconds: () => ({
    rule: 'flow-timeout-changed',
    message: 'The time limit of a run changed.',
    consequence: 'A run gets its deadline when it starts: runs in flight keep theirs.',
  }),
  onFailure: ({ before, after }) => ({
    rule: 'failure-flow-changed',
    message:
      after.onFailure === undefined
        ? 'From now on, a failed run starts no other run.'
        : `A failed run starts ${before.onFailure === undefined ? 'a run of another flow' : 'a run of a different flow'}.`,
    consequence: 'This applies to runs that start from now on: runs in flight follow their own revision.',
  }),
  concurrency: () => stepSlotsChanged('the flow'),
  pinInputs: ({ before, after }) => ({
    rule: 'pin-inputs-changed',
    class: (before.pinInputs === true) === (after.pinInputs === true) ? 'safe' : 'caution',
    message:
      after.pinInputs === true ? 'Runs keep their own inputs from now on.' : 'Runs take the newest inputs from now on.',
    consequence:
      'Each run does as the revision that it started with says: runs in flight are not affected by this change, and for as ' +
      'long as they last, a deploy reaches some runs and not others.',
  }),
  serialize: ({ before, after }) => ({
    rule: 'serialize-changed',
    class: 'caution',
    message:
      after.serialize === undefined
        ? 'Runs of one key may overlap from now on.'
        : before.serialize === undefined
          ? 'Runs of one key run one at a time from now on.'
          : 'What gives runs their keys changed.',
    consequence:
      'A run gets its key when it starts: runs in flight keep theirs, or have none. So until they have ended, a run that ' +
      'starts from now on may overlap with one that is in flight, or wait for one of another meaning with the same key.',
  }),
  serializeOnFailure: ({ before, after }) => ({
    rule: 'serialize-on-failure-changed',
    class: (before.serializeOnFailure === 'stop') === (after.serializeOnFailure === 'stop') ? 'safe' : 'caution',
    message:
      after.serializeOnFailure === 'stop'
        ? 'From now on, a failed run holds its key: no other run of the key starts until it succeeds or is released.'
        : 'From now on, the next run of a key starts even if the last one failed.',
    consequence:
      'Each run does as the revision that it started with says: runs in flight are not affected, and a key that a failed ' +
      'run holds stays held until that run succeeds by a retry or is released.',
  }),
  version: () => ({
    rule: 'version-changed',
    message: 'The version changed.',
    consequence: 'The version is only a label: it is stored with the runs that start from now on.',
  }),
  name: () => ({
    rule: 'name-changed',
    message: 'The name changed.',
    consequence: 'Runs and logs show the new name from now on; runs that were started keep the old one.',
  }),
};

const fieldsChanged: ChangeRule = (change) =>
  (Object.keys(FIELDS) as (keyof typeof FIELDS)[])
    .filter((field) => change.before[field] !== change.after[field])
    .map((field) => {
      const [before, after] = [change.before[field], change.after[field]];
      return findingAt([field], { class: 'safe', ...FIELDS[field](change), before, after });
    });

export const flowRules: readonly ChangeRule[] = [idChanged, fieldsChanged];
