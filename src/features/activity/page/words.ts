import { ownOf, spelledOut } from '../../../dashboard/web/spelling.ts';

/** Names of actions outside of features, by their API operation. */
export const ACTIONS: Readonly<Record<string, string>> = {
  deployFlow: 'Deploy a flow',
  deployFlows: 'Deploy flows together',
  restoreRevision: 'Restore a revision',
  deleteFlow: 'Delete a flow',
  reloadFlows: 'Reload the folder of manifests',
  enableFlow: 'Enable a flow',
  disableFlow: 'Disable a flow',
  drainFlow: 'Drain a flow',
  endDrain: 'End the drain of a flow',
  resumeFlow: 'Resume a flow',
  triggerFlow: 'Start a run',
  forgetLearnedKey: 'Forget a learned key',
  cancelRun: 'Cancel a run',
  releaseOrder: 'Release the order of a run',
  rerunRun: 'Run again',
  retryStep: 'Retry a step',
  sendSignal: 'Send a signal',
  logIn: 'Log in',
  changeSecret: 'Changed a secret behind its reference',
  deployRevision: 'Deployed a revision',
  widenAccess: 'Let more deliveries in',
  changeActivityKey: 'Change the key of this list',
  logOut: 'Log out',
  denyAccess: 'Refused access',
};

export function actionText(name: string): string {
  return ownOf(ACTIONS, name) ?? spelledOut(name);
}

const DETAILS: Readonly<Record<string, string>> = {
  key: 'Step',
  triggerKey: 'Trigger',
  name: 'Signal',
  allow: 'Allowed',
  flowId: 'Flow',
  leftOut: 'Left out',
  since: 'From',
  until: 'To',
  waiting: 'Waiting for',
  origin: 'Host',
  operation: 'Asked for',
  because: 'Reason',
  account: 'Given',
  unlisted: 'Not listed before it',
};

/** Further details of an intervention: `key` is the step. */
export function detailText(name: string): string {
  return ownOf(DETAILS, name) ?? spelledOut(name);
}
