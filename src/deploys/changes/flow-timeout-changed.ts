import { type ChangeRule, findingAt } from './change.ts';

export const flowTimeoutChanged: ChangeRule = ({ before, after }) => {
  if (before.timeoutSeconds === after.timeoutSeconds) return [];
  return [
    findingAt(['timeoutSeconds'], {
      rule: 'flow-timeout-changed',
      class: 'safe',
      before: before.timeoutSeconds,
      after: after.timeoutSeconds,
      message: 'The time limit of a run changed.',
      consequence: 'A run gets its deadline when it starts: runs in flight keep theirs.',
    }),
  ];
};
