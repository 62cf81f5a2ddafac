// The papers that the pages speak of, by arXiv number.
const LIST = [
  ["1502.05477", "Schulman, Levine, Moritz, Jordan, Abbeel", "Trust Region Policy Optimization", 2015, "the idea that PPO simplifies: a bound on how far one update may move the policy"],
  ["1506.02438", "Schulman, Moritz, Levine, Jordan, Abbeel", "High-Dimensional Continuous Control Using Generalized Advantage Estimation", 2015, "GAE"],
  ["1707.06347", "Schulman, Wolski, Dhariwal, Radford, Klimov", "Proximal Policy Optimization Algorithms", 2017, "PPO and the clip"],
  ["1912.09729", "Ye and others", "Mastering Complex Control in MOBA Games with Deep Reinforcement Learning", 2019, "dual clip"],
  ["2203.02155", "Ouyang and others", "Training language models to follow instructions with human feedback", 2022, "PPO on a language model, against a learned reward"],
  ["2305.18290", "Rafailov and others", "Direct Preference Optimization: Your Language Model is Secretly a Reward Model", 2023, "DPO"],
  ["2402.03300", "Shao and others", "DeepSeekMath: Pushing the Limits of Mathematical Reasoning in Open Language Models", 2024, "GRPO"],
  ["2402.14740", "Ahmadian and others", "Back to Basics: Revisiting REINFORCE Style Optimization for Learning from Human Feedback in LLMs", 2024, "RLOO"],
  ["2403.17031", "Huang and others", "The N+ Implementation Details of RLHF with PPO: A Case Study on TL;DR Summarization", 2024, "what is easy to get wrong"],
  ["2501.03262", "Hu and others", "REINFORCE++", 2025, "advantages normalised over the batch"],
  ["2503.14476", "Yu and others", "DAPO: An Open-Source LLM Reinforcement Learning System at Scale", 2025, "clip-higher, dynamic sampling"],
  ["2503.20783", "Liu and others", "Understanding R1-Zero-Like Training: A Critical Perspective", 2025, "Dr. GRPO"],
  ["2506.13585", "MiniMax", "MiniMax-M1: Scaling Test-Time Compute Efficiently with Lightning Attention", 2025, "CISPO"],
  ["2507.18071", "Zheng and others", "Group Sequence Policy Optimization", 2025, "GSPO: one ratio a reply"],
  ["2511.20347", "Gao and others", "Soft Adaptive Policy Optimization", 2025, "SAPO: a soft gate in the clip's place"],
  ["2602.04879", "Qi and others", "Rethinking the Trust Region in LLM Reinforcement Learning", 2026, "DPPO: a bound on the probability itself"],
];

export const SOURCES = LIST.map(([arxiv, authors, title, year, brings]) => ({ arxiv, authors, title, year, brings }));
