import { stepPart } from '../../config/step-part.ts';
import { waitChecks } from './checks.ts';
import { AnswerLinks } from './links.ts';

/** The links to waiting steps. */
export const approvalsStepTypes = stepPart({
  name: 'approvals',
  make({ inForce }) {
    const publicUrl = () => inForce().publicUrl;
    const links = new AnswerLinks(publicUrl);
    return {
      handlers: [],
      checks: [waitChecks(publicUrl)],
      made: links,
      waits: links.waits,
      atWork: { connect: (connections) => links.connect(connections), start: async () => {}, stop: async () => {} },
    };
  },
});
