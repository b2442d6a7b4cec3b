import { type ChangeRule, findingAt } from './change.ts';

const LABELS = [
  ['version', 'The version is a label: it is stored with the runs that start from now on, and decides nothing.'],
  ['name', 'Runs and logs show the new name from now on; runs that were started keep the old one.'],
] as const;

export const labelsChanged: ChangeRule = ({ before, after }) =>
  LABELS.filter(([field]) => before[field] !== after[field]).map(([field, consequence]) =>
    findingAt([field], {
      rule: `${field}-changed`,
      class: 'safe',
      before: before[field],
      after: after[field],
      message: `The ${field} changed.`,
      consequence,
    }),
  );
