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

type FeatureField = 'onFailure' | 'serialize' | 'serializeOnFailure';

/** Every field of a manifest except id, triggers and steps, which have separate rules. */
const FIELDS: Readonly<Record<Exclude<keyof Manifest, 'id' | 'triggers' | 'steps' | FeatureField>, Rule>> = {
  timeoutSeconds: () => ({
    rule: 'flow-timeout-changed',
    message: 'The time limit of a run changed.',
    consequence: 'A run gets its deadline when it starts: runs in flight keep theirs.',
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
  ...ofFeatures,
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
