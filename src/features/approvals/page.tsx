import type { PagePart } from '../../dashboard/web/part.ts';

export const approvalsPage: PagePart = { name: 'approvals', actions: { answerByLink: 'Answer by a link' } };
