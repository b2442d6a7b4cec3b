import { z } from 'zod';
import { type ReconcileRule, reconcileFields, secret } from './reconcile-fields.ts';

const REPOSITORY = /^[A-Za-z0-9._-]{1,100}\/[A-Za-z0-9._-]{1,100}$/;
const ORGANIZATION = /^[A-Za-z0-9-]{1,100}$/;

/** GitHub's log of one webhook, of a repository or of an organization. */
export const githubSchema = z
  .strictObject({
    from: z.literal('github').describe('The log of a webhook at GitHub.'),
    repo: z
      .string()
      .regex(REPOSITORY, { error: 'is not owner/name' })
      .optional()
      .describe('Repository, as owner/name.'),
    org: z
      .string()
      .regex(ORGANIZATION, { error: 'is not the name of an organization' })
      .optional()
      .describe('Organization, for one of its webhooks; instead of repo.'),
    hook: z.int().min(1).describe('Id of the webhook: the number at the end of the URL of its settings.'),
    token: secret.describe('Token that may read the webhook: env:NAME or file:PATH.'),
    ...reconcileFields,
  })
  .superRefine(({ repo, org }, { addIssue }) => {
    if (repo === undefined && org === undefined)
      addIssue({ code: 'custom', path: ['repo'], message: 'is missing; a repository as owner/name, or org' });
    if (repo !== undefined && org !== undefined)
      addIssue({ code: 'custom', path: ['org'], message: 'is set next to repo; a webhook belongs to one of them' });
  });

export const githubRule: ReconcileRule = {
  secrets: ['token'],
  // Every sending of one event has the same, a redelivery by hand too.
  eventId: 'headers["x-github-delivery"]',
};
