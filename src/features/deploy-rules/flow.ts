import { flowIdChanged } from '../../deploys/changes/replaced-flow.ts';
import { findingAt } from '../../deploys/changes/revisions.ts';
import { MANIFEST_FIELDS } from '../../manifest/manifest-fields.ts';
import type { FieldChange } from '../../manifest/manifest-part.ts';
import type { Manifest } from '../../manifest/schema.ts';
import type { Change, ChangeRule } from './change.ts';
import { stepSlotsChanged } from './step-fields.ts';

const idChanged: ChangeRule = ({ before, after, live }) =>
  before.id === after.id ? [] : [flowIdChanged({ replaced: before, next: after, live })];

type Rule = (change: Change) => FieldChange;

const ofFeatures: Readonly<Record<string, Rule>> = Object.fromEntries(
  Object.entries(MANIFEST_FIELDS).map(([name, { changed }]) => {
    const field = name as keyof Manifest;
    return [name, ({ before, after }: Change) => changed(before[field], after[field])];
  }),
);

/** Every field of a manifest except id, triggers and steps, which have separate rules. */
const FIELDS: Readonly<Record<Exclude<keyof Manifest, 'id' | 'triggers' | 'steps' | 'onFailure'>, Rule>> = {
  timeoutSeconds: () => ({
    rule: 'flow-timeout-changed',
    message: 'The time limit of a run changed.',
    consequence: 'A run gets its deadline when it starts: runs in flight keep theirs.',
  }),
  ...ofFeatures,
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
