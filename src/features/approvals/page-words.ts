/** What somebody may do by it, as the activity list names it. */
export const actions = { answerByLink: 'Answer by a link' };
